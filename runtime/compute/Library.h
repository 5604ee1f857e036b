// Matrix products of oneDNN, found with dlopen: the program runs without it.
#ifndef LLMC_RUNTIME_COMPUTE_LIBRARY_H
#define LLMC_RUNTIME_COMPUTE_LIBRARY_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llmc::runtime {

// One product for one thread: sizes and strides as in planfile::Matmul.
struct MatmulShape {
  planfile::DType aType = planfile::DType::F32, bType = planfile::DType::F32,
                  cType = planfile::DType::F32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t a[3] = {}, b[3] = {}, c[3] = {}; // strides in elements
  bool accumulate = false;

  auto operator<=>(const MatmulShape &) const = default;
};

class Library {
public:
  // Null if there is no usable oneDNN; `why` then says so.
  static std::unique_ptr<Library> open(std::string &why);
  ~Library();

  // Makes the product of this shape, or finds it. -1 if the library has no
  // fast code for it: use the program's own kernel.
  int prepare(const MatmulShape &shape);

  // Makes room for `threads` threads; after it no shape may be added.
  void finish(unsigned threads);

  // Runs product `id` on the calling thread alone. `thread` < threads, and no
  // two calls at a time share it. False if the library failed.
  bool execute(int id, unsigned thread, void *a, void *b, void *c);

  const std::string &version() const;

private:
  struct Impl;
  explicit Library(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One product cut into parts for `threads` threads. The cut depends on the
// shape and `threads` alone, so the bits do not depend on load.
struct MatmulPart {
  int id = -1;
  uint64_t a = 0, b = 0, c = 0; // first element of each matrix
  bool swapped = false;         // computes transpose(C) = transpose(B) transpose(A):
                                // give B for a and A for b
};
// Empty if the library refuses the shape or any part of it.
std::vector<MatmulPart> splitMatmul(Library &library, const planfile::MatmulT &matmul,
                                    unsigned threads);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_LIBRARY_H

// Runs matrix products of oneDNN, which is found with dlopen: the program also runs without
// it. The test is test/runtime/ExecutorTest.cpp (MatmulByLibraryAndByFallback,
// MatmulOfNarrowTypes).
#ifndef LLMC_RUNTIME_COMPUTE_MATMULLIBRARY_H
#define LLMC_RUNTIME_COMPUTE_MATMULLIBRARY_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llmc::runtime {

// Describes one product for one thread: sizes and strides as in planfile::Matmul.
struct MatmulShape {
  planfile::DType aType = planfile::DType::F32, bType = planfile::DType::F32,
                  cType = planfile::DType::F32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t a[3] = {}, b[3] = {}, c[3] = {}; // strides in elements
  bool accumulate = false;

  auto operator<=>(const MatmulShape &) const = default;
};

// Owns the handle of the library, its primitives and one context a thread.
class MatmulLibrary {
public:
  // Opens the library; returns null and sets `why` if there is no usable oneDNN 2.
  static std::unique_ptr<MatmulLibrary> open(std::string &why);
  ~MatmulLibrary();

  // Returns the id of the product of this shape, made on first use. Returns -1 if the library
  // has no fast code for it: the program's own kernel must run then.
  int prepare(const MatmulShape &shape);

  // Returns why no product of elements of this type is fast; empty if some are.
  std::string whyNot(planfile::DType type) const;

  // Returns whether multiply() computes a product of these strides, types and accumulation, of any sizes.
  static bool multipliesAnySize(const MatmulShape &shape);

  // Returns the bytes that each thread needs beside the operands, of all products prepared so far.
  size_t scratchBytes() const;

  // Makes contexts for `threads` threads; no shape may be prepared afterwards.
  void finish(unsigned threads);

  // Runs product `id` on the calling thread alone. `thread` < threads, and no two calls at a
  // time may share it. Returns false if the library failed.
  bool execute(int id, unsigned thread, void *a, void *b, void *c);

  // Runs a product that multipliesAnySize() and that nothing has prepared; otherwise as execute().
  bool multiply(const MatmulShape &shape, unsigned thread, const void *a, const void *b, void *c);

  // Returns the version of oneDNN, such as "2.6.3".
  const std::string &version() const;

private:
  struct Impl;
  explicit MatmulLibrary(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Describes one part of a product that is cut for several threads.
struct MatmulPart {
  int id = -1;
  uint64_t a = 0, b = 0, c = 0; // first element of each matrix
  // Marks a part that computes transpose(C) = transpose(B) transpose(A): the caller then
  // passes B as `a` and A as `b` to execute().
  bool swapped = false;
};
// Cuts a product into at most `threads` parts. The cut depends on the shape and `threads`
// alone, so the bits do not depend on load. Returns no parts if the library refuses the shape
// or any part of it.
std::vector<MatmulPart> splitMatmul(MatmulLibrary &library, const planfile::MatmulT &matmul,
                                    unsigned threads);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_MATMULLIBRARY_H

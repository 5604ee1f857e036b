// Runs one launch or product of a plan alone and compares it with what it means.
#ifndef LLMC_LIB_VERIFY_KERNELS_RUNLAUNCH_H
#define LLMC_LIB_VERIFY_KERNELS_RUNLAUNCH_H

#include "lib/verify/kernels/Launches.h"
#include "lib/verify/kernels/OperandMemory.h"
#include "lib/verify/kernels/Operands.h"
#include "lib/verify/kernels/Sample.h"
#include "runtime/compute/Kernels.h"
#include "runtime/compute/Library.h"

#include <map>

namespace llmc::verify {

// How far results are from what they mean, of what they may be.
struct Finding {
  double ratio = 0;    // the largest error, of its limit
  std::string problem; // what is wrong beside, or where the largest error is
  bool judged = false; // whether any element had a limit
};

// What all cases share.
struct Setting {
  const runtime::Kernels &kernels;
  const Noise &noise;
  runtime::Library *library = nullptr; // null: there is none
};

// One launch with the elements of its results that are looked at.
class LaunchCase {
public:
  LaunchCase(const DistinctLaunch &launch, double flops);

  bool has(Regime regime) const;
  size_t variants() const { return launch->scalars.size(); }
  // Of the kernel and its reference, as good as known.
  double seconds() const;
  // By several threads at a time, each with an arena.
  Finding run(const Setting &setting, Arena &arena, Regime regime, size_t variant,
              uint64_t stream) const;
  const std::string &name() const { return launch->name; }

private:
  void draw(const Setting &setting, const OperandMemory &memory, llvm::ArrayRef<int64_t> scalars,
            Regime regime, double scale, uint64_t stream) const;
  std::vector<graph::BoundedTensor> gather(const OperandMemory &memory,
                                           llvm::ArrayRef<int64_t> scalars) const;
  bool vanishes(llvm::ArrayRef<int64_t> scalars) const;
  void compare(const OperandMemory &memory, const std::vector<graph::BoundedTensor> &wanted,
               double floor, Finding &finding) const;

  const DistinctLaunch *launch;
  unsigned reads;
  std::unique_ptr<Sample> sample;
  bool thinned = false; // what the sample does not read of a number's operand is 0
};

// One product, by the library and by the kernel that stands in for it.
class ProductCase {
public:
  // Asks the library for what run() needs; before Library::finish().
  ProductCase(const DistinctProduct &product, runtime::Library *library);

  double seconds() const;
  Finding run(const Setting &setting, Arena &arena, Regime regime, unsigned thread,
              uint64_t stream) const;
  const std::string &name() const { return product->name; }

private:
  struct Values;
  void compare(const Values &values, llvm::ArrayRef<int64_t> rows, const float *before,
               std::string_view by, Finding &finding) const;

  const DistinctProduct *product;
  planfile::MatmulT few; // the product with fewer rows, for the library
  std::vector<runtime::MatmulPart> parts;
};

// Whether `got` is as near to `wanted` as it must be: the error, of the limit. Negative: nobody
// can say, as the exact result does not fit a float or a rounding decides. Any error up to
// `floor` is right.
double errorRatio(double got, graph::Bounded wanted, double floor);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_RUNLAUNCH_H

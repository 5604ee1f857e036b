// Runs one launch or product of a plan alone and compares it with its reference meaning. Tested
// by test/verify/kernels/ShapesTest.cpp.
#ifndef LLMC_LIB_VERIFY_KERNELS_RUNLAUNCH_H
#define LLMC_LIB_VERIFY_KERNELS_RUNLAUNCH_H

#include "lib/verify/kernels/Launches.h"
#include "lib/verify/kernels/OperandMemory.h"
#include "lib/verify/kernels/Operands.h"
#include "lib/verify/kernels/Sample.h"
#include "runtime/compute/GroupedProduct.h"
#include "runtime/compute/Kernels.h"
#include "runtime/compute/MatmulLibrary.h"

#include <map>

namespace llmc::verify {

// Holds how far results are from their expected values.
struct CaseResult {
  double ratio = 0;    // the largest quotient of an error and its limit
  std::string problem; // another fault, or the element with the largest error
  bool judged = false; // whether any element had a finite limit
};

// Refers to what all cases share.
struct CaseContext {
  const runtime::Kernels &kernels;
  const Noise &noise;
  runtime::MatmulLibrary *library = nullptr; // null if there is none
};

// Represents one launch and the elements of its results that are compared.
class LaunchCase {
public:
  // Chooses a sample whose evaluation costs about `flops`. Where operands take more than `mostBytes`, and
  // slices of them along leading dims are computed apart, only the first and the last of each dim are run.
  LaunchCase(const DistinctLaunch &launch, double flops, uint64_t mostBytes);

  // Returns whether the regime applies: Usual always, another if it changes an operand.
  bool has(NumberRegime regime) const;
  size_t variants() const { return launch->scalars.size(); }
  // Estimates the time of the kernel and of its reference; the bytes that run() takes.
  double seconds() const;
  double bytes() const;
  // Runs the launch on drawn operands with scalars `variant` and compares the sample. Several
  // threads may call it, each with an arena of its own.
  CaseResult run(const CaseContext &setting, ScratchMapping &arena, NumberRegime regime,
                 size_t variant, uint64_t stream) const;
  const std::string &name() const { return launch->name; }

private:
  void draw(const CaseContext &setting, const OperandMemory &memory,
            llvm::ArrayRef<int64_t> scalars, NumberRegime regime, double scale,
            uint64_t stream) const;
  std::vector<graph::BoundedTensor> gather(const OperandMemory &memory,
                                           llvm::ArrayRef<int64_t> scalars) const;
  bool vanishes(llvm::ArrayRef<int64_t> scalars) const;
  bool takeSlices(double flops, uint64_t mostBytes);
  bool isSliced(mlir::RankedTensorType type, const Region &region) const;
  uint64_t operandBytes() const;
  std::vector<std::pair<uint64_t, uint64_t>> usedOf(unsigned argument, mlir::RankedTensorType type) const;
  void runParts(runtime::KernelFunction kernel, void *const *buffers, const int64_t *scalars, uint64_t stream) const;
  void compare(const OperandMemory &memory, const std::vector<graph::BoundedTensor> &wanted,
               double floor, CaseResult &finding) const;

  const DistinctLaunch *launch;
  unsigned reads;
  std::unique_ptr<Sample> sample;
  bool thinned = false; // floats that the sample does not read are 0
  Region leading;       // the leading dims along which only these slices are run; empty: all is run
};

// Represents one product, run by the library and by the fallback kernel; one of routed rows with drawn
// routes.
class ProductCase {
public:
  // Requests from the library what run() needs; must precede Library::finish().
  ProductCase(const DistinctProduct &product, runtime::MatmulLibrary *library);

  double seconds() const;
  double bytes() const;
  CaseResult run(const CaseContext &setting, ScratchMapping &arena, NumberRegime regime,
                 unsigned thread, uint64_t stream) const;
  const std::string &name() const { return product->name; }

private:
  struct Values;
  void compare(const Values &values, llvm::ArrayRef<int64_t> rows, std::string_view by,
               CaseResult &finding) const;

  // Returns a product of routed rows with fewer groups and rows, where all of them would take gigabytes
  // (RunGrouped.cpp).
  static planfile::MatmulT withFewerGroups(const planfile::MatmulT &matmul);
  // Runs a product of routed rows (RunGrouped.cpp).
  CaseResult runGrouped(const CaseContext &setting, ScratchMapping &arena, NumberRegime regime,
                        unsigned thread, uint64_t stream) const;

  const DistinctProduct *product;
  std::unique_ptr<planfile::MatmulT> few; // the product with fewer rows, for the library; of routed rows, for all
  std::unique_ptr<runtime::GroupedProduct> grouped, groupedByKernel; // null: rows are not routed
  std::vector<runtime::MatmulPart> parts;
};

// Describes the floats of a type in memory: kernels compute in float32 and round what they write.
struct StoredFloat {
  double largest;  // finite number
  double half = 0; // of the distance of two neighbours, relative: 0 for float32 and above
  double least = 0; // half of the distance of denormals
};
StoredFloat storedFloat(mlir::Type element);
StoredFloat storedFloat(planfile::DType type);

// Returns the error of `got`, stored as `type`, divided by its limit: at most 1 is right. Returns a
// negative number if that cannot be decided, since the exact result does not fit the type or a
// rounding decides. Any error up to `floor` is right.
double errorRatio(double got, graph::Bounded wanted, double floor, const StoredFloat &type);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_RUNLAUNCH_H

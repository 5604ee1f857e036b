// Counts the types of a partitioned module by the role of each value, independently of the pass that
// decided them. Test: test/verify/TypesTest.cpp.
#ifndef LLMC_LIB_VERIFY_TYPES_CENSUS_H
#define LLMC_LIB_VERIFY_TYPES_CENSUS_H

#include "lib/options/Options.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace llmc::verify {

// Describes a value whose type does not fit its role.
struct TypeFault {
  // Names the rule, as the checks types:RULE do:
  //   states    parameters in the low type; masters and moments f32; accumulators as --grad-dtype
  //   kept      what layers carry, stages send and a backward pass finds: low, but statistics,
  //             arithmetic on weights alone and what a table in f32 has promoted
  //   products  operands and results low, but of a gradient, which has its accumulator's type
  //   sums      statistics and sums f32; on the way to an accumulator nothing is narrower than it
  //   moved     collectives: as the value that they move; gradients over data axes: --reduce-dtype
  //   casts     no number is rounded to the low type for readers that widen it again
  //   update    computed in f32, but for what is stored low
  std::string rule;
  std::string text; // where, what type it has and which it shall have
};

// Lists the rules, in the order of the checks.
inline constexpr const char *kTypeRules[] = {"states", "kept",  "products", "sums",
                                             "moved",  "casts", "update"};

// Returns all faults of a module at boundary partition that was compiled with these options. In fp32
// only `moved` is looked at, which --reduce-dtype may change.
std::vector<TypeFault> censusOfTypes(mlir::ModuleOp module, const CompileOptions &options);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_TYPES_CENSUS_H

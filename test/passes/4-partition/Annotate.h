// Annotates modules without a tactic: tests choose the layouts of states and inputs, and all
// others are derived op by op or drawn at random.
#ifndef LLMC_TEST_PASSES_PARTITION_ANNOTATE_H
#define LLMC_TEST_PASSES_PARTITION_ANNOTATE_H

#include "dialects/parallel/Annotations.h"
#include <functional>
#include <random>

namespace llmc::test {

struct Layout {
  int64_t dp = 1, pp = 1, tp = 1;
  std::vector<int64_t> layers; // per stage; empty: one stage
  // Maps a parameter to the axis of each dimension, without the layer dimension ("tp" or ""); a
  // parameter that is missing is replicated.
  std::map<std::string, std::vector<std::string>> states;
};

// Returns the whole-head, column, row and vocabulary cuts of the decoder over "tp".
std::map<std::string, std::vector<std::string>> tensorCuts();

// Writes the mesh and the annotations of @micro and @update. An op takes the axes of its
// operands, the first operand first; what does not fit is left to reshards. With `random`, every
// op, state and body argument draws its own.
void annotate(mlir::ModuleOp module, const Layout &layout, std::mt19937 *random = nullptr);

// Marks stages in @micro: what the layers read is stage 0, all else the last; in the backward the
// reverse.
void markStages(mlir::func::FuncOp micro, const Layout &layout);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_PARTITION_ANNOTATE_H

// Finds the places of a transformer where dropout stands, by the structure of its residual stream.
// Test: test/passes/2-train/add-dropout.mlir.
#ifndef LLMC_PASSES_TRAIN_ADDDROPOUT_FINDPLACES_H
#define LLMC_PASSES_TRAIN_ADDDROPOUT_FINDPLACES_H

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <vector>

namespace llmc::train {

// Tells what is dropped at a place.
enum class PlaceKind { Embedding, Attention, AttentionOutput, MlpOutput };

// Represents a place: the attention (a graph.attention, or a softmax) whose weights are dropped, or the
// value that is dropped and its reader (null: all that read it).
struct DropoutPlace {
  PlaceKind kind;
  mlir::Operation *attention = nullptr;
  mlir::Value value;
  mlir::OpOperand *use = nullptr;
};

// Lists the places of a function's body and of the bodies of its repeats, each block's in order.
// `mixed` holds repeats that carry a branch in some iterations and the stream in others: of these
// there are none.
struct DropoutPlaces {
  std::map<mlir::Block *, std::vector<DropoutPlace>> blocks;
  std::vector<mlir::Operation *> mixed;
};

DropoutPlaces findDropoutPlaces(mlir::func::FuncOp forward);

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_ADDDROPOUT_FINDPLACES_H

// Lists the inputs of an ONNX graph and the table lookups that they index.
// Tested by test/import/Infer.cpp.
#ifndef LLMC_LIB_ONNX_BIND_LOOKUPS_H
#define LLMC_LIB_ONNX_BIND_LOOKUPS_H

#include "lib/onnx/file/DimExpression.h"
#include "lib/onnx/bind/Inputs.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace llmc::onnximport {

// Describes a lookup of rows in a stored float matrix (Gather, EmbedLayerNormalization).
struct Lookup {
  unsigned table;           // index into Model::stored()
  llvm::StringRef input;    // the graph input that is the index, empty if computed
  bool ofPositions = false; // the index takes one value per token position
};

// Finds the inputs and lookups of a graph. Model and order must outlive it.
class GraphInputs {
public:
  GraphInputs(const Model &model, const NodeOrder &order);

  // Returns the inputs that have no initializer, by name, in the order of the graph.
  const llvm::MapVector<llvm::StringRef, const ::onnx::ValueInfoProto *> &all() const {
    return inputs_;
  }
  const ::onnx::TypeProto::Tensor &typeOf(llvm::StringRef input) const {
    return inputs_.find(input)->second->type().tensor_type();
  }
  int rankOf(llvm::StringRef input) const { return typeOf(input).shape().dim_size(); }
  llvm::ArrayRef<Lookup> lookups() const { return lookups_; }
  int64_t rows(const Lookup &lookup) const { return model_.stored()[lookup.table].shape[0]; }

  // Fails for the first input that is not a tensor of numbers of known rank, or has a dim that
  // is negative or 0. Only the dims behind the first of an input of rank 3 or more (a cache) may
  // be 0.
  support::Status check() const;
  // Sets tokens and tokenTable if an input holds token ids; else leaves them as they are.
  void findTokens(InputBinding &out) const;
  // Sets context and positionTable to those of the position table with the most rows, if any.
  void findContext(InputBinding &out) const;
  // Returns whether the input is a boolean that an If reads as its condition.
  bool isCondition(llvm::StringRef input) const;

private:
  llvm::StringRef originOf(llvm::StringRef name, bool parts = false) const;
  // Classifies an index: the same for all tokens, one per token position, or unknown (as for
  // buckets of relative distances). Later values absorb earlier ones.
  enum class Index { Even, Positions, Other };
  Index indexOf(llvm::StringRef name, int depth);
  Index computedIndex(const Node &node, int depth);
  void addLookup(llvm::StringRef table, llvm::StringRef index);

  const Model &model_;
  const NodeOrder &order_;
  llvm::MapVector<llvm::StringRef, const ::onnx::ValueInfoProto *> inputs_;
  std::vector<Lookup> lookups_;
  llvm::StringMap<Index> indices_;
};

// Returns dim `position` of an input as an expression; a dim that has neither size nor name gets
// the name "INPUT.POSITION".
DimExpression dimOf(const GraphInputs &inputs, llvm::StringRef input, int position);

// Binds the one unbound name of `dim` so that it has `size`; does nothing if more are unbound.
// Fails if the dim has another size or cannot have this one.
support::Status bindDim(const DimExpression &dim, int64_t size, Symbols &symbols);
// Binds the names of whole expressions that --dim gives, as far as they can be solved.
using WholeDims = std::vector<std::pair<DimExpression, int64_t>>;
support::Status bindWholeDims(const WholeDims &dims, Symbols &symbols);

// Binds the inputs for inference, as bindInputs states; errors do not name the file.
support::Result<InputBinding> bindInferInputs(const GraphInputs &inputs, const Model &model,
                                              const CompileOptions &options);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_LOOKUPS_H

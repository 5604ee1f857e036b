// The graph's inputs by name, and which of them are looked up in tables.
#ifndef LLMC_LIB_ONNX_BIND_LOOKUPS_H
#define LLMC_LIB_ONNX_BIND_LOOKUPS_H

#include "lib/onnx/file/DimExpression.h"
#include "lib/onnx/bind/Inputs.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace llmc::onnximport {

// A Gather from a stored float matrix.
struct Lookup {
  unsigned table;
  llvm::StringRef input;    // the graph input that is the index, empty if computed
  bool ofPositions = false; // the index counts tokens: a row for each
};

class GraphInputs {
public:
  GraphInputs(const Model &model, const NodeOrder &order);

  // Inputs without a stored value, in order.
  const llvm::MapVector<llvm::StringRef, const ::onnx::ValueInfoProto *> &all() const {
    return inputs_;
  }
  const ::onnx::TypeProto::Tensor &typeOf(llvm::StringRef input) const {
    return inputs_.find(input)->second->type().tensor_type();
  }
  int rankOf(llvm::StringRef input) const { return typeOf(input).shape().dim_size(); }
  llvm::ArrayRef<Lookup> lookups() const { return lookups_; }
  int64_t rows(const Lookup &lookup) const { return model_.stored()[lookup.table].shape[0]; }

  // An error for the first input that is no tensor of numbers of known rank, or
  // has a dim that is negative or (but for caches: three dims or more) 0.
  support::Status check() const;
  // Sets tokens and tokenTable where an input is one; else leaves them empty.
  void findTokens(InputBinding &out) const;
  // Sets context and positionTable, those of the longest table of positions.
  void findContext(InputBinding &out) const;
  // Whether the input decides an If.
  bool isCondition(llvm::StringRef input) const;

private:
  llvm::StringRef originOf(llvm::StringRef name, bool parts = false) const;
  // What an index is made of: `Other` where how it grows with the tokens is unknown, as
  // that of buckets of distances.
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

// A dim that has no name either is called "INPUT.POSITION".
DimExpression dimOf(const GraphInputs &inputs, llvm::StringRef input, int position);

support::Result<InputBinding> bindInferInputs(const GraphInputs &inputs, const Model &model,
                                              const CompileOptions &options);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_LOOKUPS_H

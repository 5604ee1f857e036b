// Maps the names of the ONNX graph to their values while its nodes are converted.
// Tested by test/import/SmallGraphs.cpp, Functions.cpp and Infer.cpp.
#ifndef LLMC_LIB_ONNX_CONVERT_GRAPHCONVERTER_H
#define LLMC_LIB_ONNX_CONVERT_GRAPHCONVERTER_H

#include "lib/onnx/convert/BuildRule.h"

namespace llmc::onnximport {

// Converts nodes in the order in which they are needed. A node that cannot be converted is a
// problem; its users are left out without another one.
class GraphConverter {
public:
  GraphConverter(const Model &model, const NodeOrder &order, const CompileOptions &options,
        mlir::Block &body, Parameters &parameters, mlir::OpBuilder &builder);

  void define(llvm::StringRef name, Operand operand) { values_[name] = std::move(operand); }
  // Converts all nodes that the results need. Fails with a list of all problems.
  support::Status convertAll();
  // Returns the operand of a name, empty if it has none.
  Operand result(llvm::StringRef name);
  // Returns the operand of a name as a value of the function, materialized if it is known; null
  // for a name without operand and for a sequence.
  mlir::Value valueOf(llvm::StringRef name);
  // Keeps the operand of a name until the end, even if no node uses it any more.
  void keep(llvm::StringRef name) { ++usesLeft_[name]; }
  // Returns the notes to the user, one line each.
  std::vector<std::string> notes() const;

private:
  void convertNode(const Node &node);
  ConvertResult convert(const Node &node);
  ConvertResult convertTensors(const Node &node, llvm::ArrayRef<Operand> operands);
  ConvertResult shapeOf(const NodeAdaptor &call);
  ConvertResult constantNode(const Node &node);
  support::Result<std::optional<std::vector<Operand>>>
  foldToDefinitions(const Node &node, llvm::ArrayRef<const Operand *> operands);
  support::Result<Operand> built(const Node &node, const SymbolicConstant &symbolic);
  support::Status foldKnown(NodeAdaptor &call, std::optional<std::vector<Operand>> &out);
  support::Result<Operand> lookUp(llvm::StringRef name);
  support::Result<Operand> stored(unsigned tensor);
  bool readsNumber(const Node &node, size_t i) const;
  bool isLearnedNumber(unsigned tensor) const;
  void findLearnedNumbers();
  Operand operandOf(const Node &node, size_t i, Operand operand) const;
  TakenBranches chooseBranch(const Node &node);
  ConvertResult chooseValues(const Node &node);
  const std::vector<std::string> *resultsOf(const Node &branching) const;
  void countUses();
  void release(const Node &node);
  void noteMixedTypes(const NodeAdaptor &call);
  void addProblem(const Node &node, const std::string &message);

  const Model &model_;
  const NodeOrder &order_;
  const CompileOptions &options_;
  Parameters &parameters_;
  mlir::OpBuilder &builder_;
  Constants constants_;
  RuleBuilder rules_;
  std::vector<std::string> heldMasks_; // notes on symbolic constants that follow no rule
  llvm::StringMap<Operand> values_;
  llvm::StringMap<size_t> usesLeft_;
  std::set<unsigned> learnedNumbers_; // tensors of one element that nodes read as parameters
  std::map<const ::onnx::NodeProto *, TakenBranches> taken_;
  std::string problems_, mixedFirst_;
  size_t problemCount_ = 0, mixedCount_ = 0;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_GRAPHCONVERTER_H

// What the names of the graph stand for while its nodes are converted.
#ifndef LLMC_LIB_ONNX_CONVERT_NAMES_H
#define LLMC_LIB_ONNX_CONVERT_NAMES_H

#include "lib/onnx/convert/Conversion.h"

namespace llmc::onnximport {

// Converts nodes in the order in which they are needed. A node that cannot be
// converted is a problem; the ones behind it are left out in silence.
class Names {
public:
  Names(const Model &model, const NodeOrder &order, const CompileOptions &options,
        mlir::Block &body, Parameters &parameters, mlir::OpBuilder &builder);

  void define(llvm::StringRef name, Operand operand) { values_[name] = std::move(operand); }
  // Converts all that the results need. The error lists all problems.
  support::Status convertAll();
  // Empty where the name means nothing.
  Operand result(llvm::StringRef name);
  // A result as a value of the function, a constant if need be.
  mlir::Value valueOf(llvm::StringRef name);
  // Holds a value until the end, though no node may use it any more.
  void keep(llvm::StringRef name) { ++usesLeft_[name]; }
  // What a reader should know: one line each.
  std::vector<std::string> notes() const;

private:
  void convertNode(const Node &node);
  ConvertResult convert(const Node &node);
  ConvertResult convertTensors(const Node &node, llvm::ArrayRef<Operand> operands);
  ConvertResult shapeOf(const Call &call);
  ConvertResult constantNode(const Node &node);
  support::Status foldKnown(Call &call, std::optional<std::vector<Operand>> &out);
  support::Result<Operand> lookUp(llvm::StringRef name);
  support::Result<Operand> stored(unsigned tensor);
  bool readsNumber(const Node &node, size_t i) const;
  bool isLearnedNumber(unsigned tensor) const;
  void findLearnedNumbers();
  Operand operandOf(const Node &node, size_t i, Operand operand) const;
  Taken chooseBranch(const Node &node);
  ConvertResult chooseValues(const Node &node);
  const std::vector<std::string> *resultsOf(const Node &branching) const;
  void countUses();
  void release(const Node &node);
  void noteMixedTypes(const Call &call);
  void addProblem(const Node &node, const std::string &message);

  const Model &model_;
  const NodeOrder &order_;
  const CompileOptions &options_;
  Parameters &parameters_;
  mlir::OpBuilder &builder_;
  Constants constants_;
  llvm::StringMap<Operand> values_;
  llvm::StringMap<size_t> usesLeft_;
  std::set<unsigned> learnedNumbers_; // without a name, by the nodes that read them
  std::map<const ::onnx::NodeProto *, Taken> taken_;
  std::string problems_, mixedFirst_;
  size_t problemCount_ = 0, mixedCount_ = 0;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_NAMES_H

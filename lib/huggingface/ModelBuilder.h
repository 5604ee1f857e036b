// Builds the module of a model: @forward, its input, its parameters and their sources. Tests:
// test/import/Architectures.cpp, test/import/Models.cpp.
#ifndef LLMC_LIB_HUGGINGFACE_MODELBUILDER_H
#define LLMC_LIB_HUGGINGFACE_MODELBUILDER_H

#include "dialects/graph/Build.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringSet.h"

namespace llmc::hf {

// Describes how a tensor is initialized where there is no checkpoint.
struct Init {
  graph::InitKind kind = graph::InitKind::normal;
  double deviation = 0; // standard deviation of `normal`

  static Init zeros() { return {graph::InitKind::zeros, 0}; }
  static Init ones() { return {graph::InitKind::ones, 0}; }
  static Init normal(double deviation) { return {graph::InitKind::normal, deviation}; }
};

// Locates a parameter, or the part of one leading index of it, in a source.
struct View {
  std::string source;
  int64_t offset = 0; // in elements
  llvm::SmallVector<int64_t> strides;
};

// Returns the strides of a whole tensor.
llvm::SmallVector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape);

// Owns a module with @forward(input_ids : i64 [batch, sequence]) until finish().
class ModelBuilder {
public:
  ModelBuilder(mlir::MLIRContext &context, int64_t batch, int64_t sequence);

  // Returns a builder at the end of @forward whose ops have the location NameLoc(place).
  graph::Build at(const std::string &place);
  mlir::Value tokens() const { return body_->getArgument(0); }

  // Declares a graph.source for a tensor of the checkpoint, which may have the name `alias`
  // instead. Does nothing if `name` is declared already: each part of a tensor may declare it.
  void source(const std::string &name, llvm::ArrayRef<int64_t> shape, Init init,
              const std::string &alias = "");
  // Adds a state and an argument of @forward that hold a whole source, or the strided part of it
  // at `offset` (in elements), and returns the argument.
  mlir::Value parameter(const std::string &source, llvm::ArrayRef<int64_t> shape);
  mlir::Value parameter(const std::string &source, llvm::ArrayRef<int64_t> shape,
                        int64_t offset, llvm::ArrayRef<int64_t> strides);
  // Adds a parameter called `name` with one view, or with one for each index of its first dimension,
  // whose strides leave that out.
  mlir::Value parameter(const std::string &name, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<View> views);
  // Declares a source and returns a parameter that holds the whole of it.
  mlir::Value whole(const std::string &name, llvm::ArrayRef<int64_t> shape, Init init,
                    const std::string &alias = "");

  // Counts the elements of all parameters.
  int64_t parameters() const { return parameters_; }

  // Returns `logits` from @forward, sets its type and attributes, and gives up the module.
  mlir::OwningOpRef<mlir::ModuleOp> finish(mlir::Value logits);

private:
  mlir::Location named(llvm::StringRef name);

  mlir::OpBuilder builder_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp func_;
  mlir::Block *body_;
  llvm::StringSet<> sources_;
  unsigned states_ = 0;
  int64_t parameters_ = 0;
  std::vector<std::string> bound_; // state of each argument after the first
};

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_MODELBUILDER_H

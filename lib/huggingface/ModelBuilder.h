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
  // Declares a source and returns a parameter that holds the whole of it.
  mlir::Value whole(const std::string &name, llvm::ArrayRef<int64_t> shape, Init init,
                    const std::string &alias = "");

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
  std::vector<std::string> bound_; // state of each argument after the first
};

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_MODELBUILDER_H

// What every architecture's file builds with: the module, its inputs and its
// parameters.
#ifndef LLMC_LIB_HUGGINGFACE_MODELBUILDER_H
#define LLMC_LIB_HUGGINGFACE_MODELBUILDER_H

#include "dialects/graph/Build.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringSet.h"

namespace llmc::hf {

// From what a tensor is drawn where there is no file.
struct Init {
  graph::InitKind kind = graph::InitKind::normal;
  double deviation = 0;

  static Init zeros() { return {graph::InitKind::zeros, 0}; }
  static Init ones() { return {graph::InitKind::ones, 0}; }
  static Init normal(double deviation) { return {graph::InitKind::normal, deviation}; }
};

class ModelBuilder {
public:
  ModelBuilder(mlir::MLIRContext &context, int64_t batch, int64_t sequence);

  // Builds at the end of @forward, under a location that names `place`.
  graph::Build at(const std::string &place);
  mlir::Value tokens() const { return body_->getArgument(0); }

  // Declares a tensor of the checkpoint, which may be there under `alias` too.
  // Parts of one tensor may each declare it.
  void source(const std::string &name, llvm::ArrayRef<int64_t> shape, Init init,
              const std::string &alias = "");
  // A parameter that is a source, or a strided part of it.
  mlir::Value parameter(const std::string &source, llvm::ArrayRef<int64_t> shape);
  mlir::Value parameter(const std::string &source, llvm::ArrayRef<int64_t> shape,
                        int64_t offset, llvm::ArrayRef<int64_t> strides);
  // source() and parameter() in one.
  mlir::Value whole(const std::string &name, llvm::ArrayRef<int64_t> shape, Init init,
                    const std::string &alias = "");

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

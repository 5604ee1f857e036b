// Translates the plan dialect to planfile::ProgramT, table by table. Its test is
// test/passes/6-emit/WritePlanTest.cpp.
#ifndef LLMC_PASSES_EMIT_PLANFILE_PLANWRITER_H
#define LLMC_PASSES_EMIT_PLANFILE_PLANWRITER_H

#include "dialects/plan/Plan.h"
#include "lib/planfile/Program.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace llmc::emit {

class PlanWriter {
public:
  PlanWriter(mlir::ModuleOp module, planfile::ProgramT &program)
      : module(module), symbols(module), program(program) {}

  mlir::LogicalResult run();

private:
  mlir::ModuleOp module;
  mlir::SymbolTable symbols; // of the module's states
  planfile::ProgramT &program;
  parallel::MeshAttr mesh;
  llvm::StringMap<uint32_t> kernels, sources, inputs;
  llvm::DenseMap<mlir::Attribute, uint32_t> origins;
  llvm::SmallVector<int64_t> lanes; // of the procedure that is being written
  // Maps a root buffer and a life to the number of the tensor that has these bytes; per stage.
  llvm::DenseMap<std::pair<mlir::Operation *, int64_t>, uint32_t> tensors;

  // Writes the tables of the model and the step (Model.cpp).
  mlir::LogicalResult writeMesh();
  void writeModel();
  void writeOptions();
  void writeRoom(); // after the stages
  void writeFiles();
  mlir::LogicalResult writeSources();
  void writeKernels();

  // Writes what is bound to a stage's arena from outside (States.cpp).
  mlir::LogicalResult writeBindings(plan::StageOp op, planfile::StageT &stage);
  mlir::LogicalResult writeBinding(plan::BufferOp op, planfile::StageT &stage);
  using Shards = std::vector<std::unique_ptr<planfile::StateShardT>>;
  mlir::FailureOr<Shards> shardsOf(plan::BufferOp op, plan::StateBindingAttr binding,
                                   llvm::ArrayRef<int64_t> shape);
  mlir::LogicalResult verifyBinding(plan::BufferOp op, plan::StateBindingAttr binding,
                                    graph::StateOp state, llvm::ArrayRef<int64_t> local);
  mlir::LogicalResult writeState(plan::BufferOp op, plan::StateBindingAttr binding,
                                 planfile::StageT &stage);
  mlir::LogicalResult writeFlat(plan::BufferOp op, plan::FlatBindingAttr binding,
                                planfile::StageT &stage);
  mlir::FailureOr<std::vector<uint32_t>> axesNamed(mlir::Operation *op,
                                                  llvm::ArrayRef<mlir::StringAttr> axes);
  mlir::LogicalResult writeInput(plan::BufferOp op, plan::InputBindingAttr binding);
  mlir::LogicalResult listInputs();
  mlir::LogicalResult writeLoader(mlir::Operation *at, graph::LoaderAttr loader,
                                  planfile::InputBindingT &input);
  bool loadAlike(const planfile::InputBindingT &a, const planfile::InputBindingT &b) const;
  mlir::LogicalResult writeResult(plan::BufferOp op, plan::OutputBindingAttr binding,
                                  planfile::StageT &stage);
  mlir::FailureOr<std::vector<std::unique_ptr<planfile::DimShardingT>>>
  dimsOf(mlir::Operation *op, mlir::ArrayAttr dims);
  mlir::FailureOr<std::unique_ptr<planfile::ViewT>> viewOf(mlir::Operation *at,
                                                           graph::StateOp state, size_t layer);

  // Writes what explains the plan to people (Origins.cpp).
  uint32_t originOf(mlir::Operation &op);
  void writeOps();
  std::unique_ptr<planfile::TensorInfoT> tensorOf(mlir::DictionaryAttr description);
  std::unique_ptr<planfile::LayoutT> layoutOf(mlir::Attribute sharding);

  // Writes stages, procedures and instructions (WritePlan.cpp).
  mlir::LogicalResult writeStage(plan::StageOp op);
  mlir::LogicalResult writeProcedure(plan::ProcedureOp op, planfile::StageT &stage);
  using Instructions = std::vector<std::unique_ptr<planfile::InstructionT>>;
  mlir::LogicalResult writeInstruction(mlir::Operation &op, planfile::Phase phase,
                                       Instructions &out);
  mlir::FailureOr<planfile::BodyUnion> bodyOf(mlir::Operation &op);
  std::unique_ptr<planfile::BufferRefT> operandRef(mlir::Operation *op, unsigned index);
  template <typename Message, typename Op> void fillMessage(Message &message, Op op, uint32_t axis);
  mlir::FailureOr<std::unique_ptr<planfile::LaunchT>> launchOf(plan::LaunchOp op);
  mlir::FailureOr<std::unique_ptr<planfile::RoutesT>> routesOf(plan::LaunchOp op);
  mlir::LogicalResult writeMatmul(plan::MatmulOp op, const planfile::InstructionT &common,
                                  Instructions &out);
  mlir::FailureOr<std::unique_ptr<planfile::MatmulT>> groupedOf(plan::GroupedMatmulOp op);
  mlir::FailureOr<std::unique_ptr<planfile::CollectiveT>> collectiveOf(plan::CollectiveOp op);
  mlir::FailureOr<uint32_t> kernelNamed(mlir::Operation *op, std::optional<llvm::StringRef> name);
  mlir::FailureOr<uint32_t> axisNamed(mlir::Operation *op, llvm::StringRef name);
};

// Returns the bytes of the arena that a plan.buffer names, with views resolved. `lanes` holds
// the pool of each lane of the procedure that names it; empty means lane 0.
std::unique_ptr<planfile::BufferRefT> bufferRef(mlir::Value buffer,
                                                llvm::ArrayRef<int64_t> lanes = {});
planfile::DType dtypeOf(mlir::Type element);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_PLANFILE_PLANWRITER_H

// Builds one plan.stage from the functions of its chunks. Tests:
// test/passes/5-schedule/build-procedures.mlir, PlanTest.cpp.
#ifndef LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_STAGEBUILDER_H
#define LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_STAGEBUILDER_H

#include "dialects/parallel/Annotations.h"
#include "passes/5-schedule/BuildProcedures/Origins.h"
#include "passes/5-schedule/BuildProcedures/BufferAssignment.h"
#include "passes/5-schedule/Streams.h"
#include "llvm/ADT/MapVector.h"

#include <map>
#include <set>

namespace llmc {

// Holds the functions of one chunk of layers; of an inference the forward alone. Weight is null
// where backward is whole.
struct ChunkFunctions {
  mlir::func::FuncOp forward, backward, weight;
};

struct StageFunctions {
  std::vector<ChunkFunctions> chunks; // in the order of the model
  mlir::func::FuncOp update;          // null of an inference
};

class StageBuilder {
public:
  // Takes the symbol table of the module in `symbols`.
  StageBuilder(mlir::ModuleOp module, mlir::SymbolTable &symbols, int64_t stage,
               StageFunctions functions)
      : module(module), symbols(symbols), stage(stage), functions(std::move(functions)),
        b(module.getContext()), mesh(parallel::getMesh(module)), stages(mesh.getSize(planfile::AxisRole::Stages)) {}

  // Builds the stage at the end of the module. Emits an error and fails where an argument or result
  // has no binding, or an op no instruction.
  mlir::LogicalResult run();
  unsigned launches = 0, copies = 0;

private:
  using Bindings = std::vector<BufferSlice>;
  // Identifies the events between compute and messages for each direction of a chunk; -1: not
  // needed.
  struct Direction {
    int64_t done = -1;    // compute: the procedure has run: send its results, reuse its slot
    int64_t sent = -1;    // messages: results have left
    int64_t arrived = -1; // messages: what the procedure needs is there
  };
  struct Chunk {
    std::map<int64_t, BufferSlice> residuals;
    Direction forward, backward;
    int64_t weightDone = -1; // compute: the weight gradients are there: reuse the slot
  };

  // Builds one procedure after the other (BuildProcedures.cpp).
  mlir::LogicalResult buildChunk(int64_t index);
  mlir::LogicalResult buildProcedure(mlir::func::FuncOp func, plan::ProcedureKind kind);
  plan::ProcedureOp newProcedure(mlir::Location loc, llvm::StringRef name,
                                 plan::ProcedureKind kind);
  void buildBegin();
  void setLayers();

  // Binds arguments and results to states, inputs and outputs, and declares buffers (Bindings.cpp).
  mlir::LogicalResult bindArguments(mlir::func::FuncOp func, AssignmentInputs &known);
  mlir::LogicalResult bindResults(mlir::func::FuncOp func, AssignmentInputs &known);
  bool isReadLater(mlir::func::FuncOp func, int root);
  BufferSlice stateRoot(mlir::FlatSymbolRefAttr state, mlir::DictionaryAttr attrs,
                  mlir::RankedTensorType type);
  void noteLayers(int64_t first, int64_t count);
  plan::StateBindingAttr stateBinding(mlir::FlatSymbolRefAttr symbol, graph::StateOp state,
                                      mlir::DenseI64ArrayAttr held);
  plan::FlatBindingAttr flatBinding(parallel::FlatAttr flat, std::optional<int64_t> layer);
  BufferSlice flatRoot(parallel::FlatAttr flat, mlir::DictionaryAttr attrs,
                       mlir::RankedTensorType type);
  BufferSlice newRoot(mlir::Type type, plan::Space space, mlir::Attribute binding = {});
  plan::InputBindingAttr inputBinding(mlir::StringAttr name, mlir::DictionaryAttr attrs);
  plan::OutputBindingAttr outputBinding(mlir::StringAttr name, mlir::DictionaryAttr attrs,
                                     mlir::RankedTensorType type);
  void bindUnused();
  mlir::Value buffer(BufferSlice place, mlir::Type type);
  mlir::Value bufferOf(mlir::Value value) {
    return buffer(places->lookup(value), value.getType());
  }
  void setLives(mlir::Operation *instruction, llvm::ArrayRef<mlir::Value> values);

  // Builds one instruction for each op (Instructions.cpp).
  mlir::LogicalResult buildOp(mlir::Operation &op);
  mlir::LogicalResult buildLaunch(mlir::Operation &op);
  void buildCollective(mlir::Operation &op, plan::CollectiveKind kind, graph::ReduceKind reduce);
  void buildGroupedMatmul(mlir::Operation &op);
  llvm::SmallVector<int64_t> coefficientsOf(parallel::AxisOffsetOp offset) const;

  // Builds exchanges for the values that cross stages (Messages.cpp).
  void allocateEvents();
  void buildPrologue(mlir::func::FuncOp func, plan::ProcedureKind kind);
  void buildFeeds(mlir::func::FuncOp func);
  void buildEpilogue(mlir::func::FuncOp func, plan::ProcedureKind kind, const Bindings &returned);
  void buildSend(mlir::func::FuncOp func, bool forward);
  void buildReceive(mlir::func::FuncOp func, bool forward);
  plan::ProcedureOp newExchange(mlir::Location loc, bool send, bool forward);
  Direction &direction(bool forward) {
    return forward ? chunks[chunk].forward : chunks[chunk].backward;
  }
  int64_t channelTo(bool forward, int64_t toChunk) const { return 2 * toChunk + !forward; }
  // Returns the channel of messages around a ring, which go to other ranks than those between stages.
  int64_t ringChannel() const { return 2 * static_cast<int64_t>(chunks.size()); }
  void buildMessage(mlir::ArrayRef<parallel::ShiftOp> shifts);

  mlir::ModuleOp module;
  mlir::SymbolTable &symbols;
  int64_t stage;
  StageFunctions functions;
  mlir::OpBuilder b;
  parallel::MeshAttr mesh;
  int64_t stages;
  plan::StageOp stageOp;
  plan::ProcedureOp firstProcedure; // before which buffers are declared; null: there is none yet
  std::vector<RootBuffer> roots;
  llvm::DenseSet<int> taken; // roots that some function has as an argument
  std::map<std::tuple<int, int64_t, const void *>, mlir::Value> views;
  // Maps a state and its first layer to its root.
  llvm::MapVector<std::pair<mlir::StringAttr, int64_t>, int> stateRoots;
  std::map<std::pair<int64_t, std::string>, BufferSlice>
      inputs;                                              // by chunk (scalars of the step: -1)
  std::set<std::pair<int64_t, std::string>> fed;           // inputs that a forward brings in
  std::vector<Chunk> chunks;
  int64_t chunk = 0;        // whose procedures are being built
  llvm::DenseSet<int> sent; // roots that a message leaves from
  const BufferAssignment *places = nullptr;
  llvm::SmallVector<mlir::Attribute> layers; // a plan.chunk for each chunk
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_STAGEBUILDER_H

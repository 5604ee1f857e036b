// The parts of the machine that interpretPlan runs. Internal to PlanMachine*.cpp.
#ifndef LLMC_LIB_VERIFY_PLANMACHINEPARTS_H
#define LLMC_LIB_VERIFY_PLANMACHINEPARTS_H

#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/Annotations.h"
#include "lib/verify/PlanMachine.h"
#include "lib/verify/Sources.h"

#include <deque>

namespace llmc::verify::machine {

using mlir::ArrayRef;
using mlir::Block;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::ModuleOp;
using mlir::Operation;
using mlir::SmallVector;
using mlir::StringRef;
using mlir::Value;

// Bytes of a buffer, as cells of the model: one double for `granule` bytes.
struct Place {
  int64_t offset = 0, stride = 0; // in cells; of slot 0, and from slot to slot
  int64_t step = 1, cells = 0;    // cells of an element, of the whole buffer
  std::vector<int64_t> shape;
};

struct Stage {
  plan::StageOp op;
  int64_t granule = 1;
  llvm::DenseMap<Value, Place> places;
  llvm::StringMap<plan::ProcedureOp> procedures;
  SmallVector<plan::EntryAttr> table;
};

struct Rank {
  int64_t id = 0;
  Stage *stage = nullptr;
  SmallVector<int64_t> coordinate;
  std::vector<double> cells;
  size_t entry = 0;
  Block::iterator next;
  bool entered = false; // `next` belongs to `entry`
  bool posted = false;  // of the collective where the rank stands
  bool done() const { return entry == stage->table.size(); }
};

// The collective that a group is assembling.
struct Meeting {
  std::vector<int64_t> group;
  std::map<int64_t, Tensor> parts;   // by rank
  std::map<int64_t, Tensor> results; // not fetched yet
};

class PlanMachine {
public:
  PlanMachine(ModuleOp module, const Trial &trial) : module(module), trial(trial) {}
  FailureOr<Outcome> run();

private:
  LogicalResult prepare();
  void placeBuffers(Stage &stage);
  void fillStates();
  LogicalResult step(const StepData &data);
  LogicalResult advance(Rank &rank, bool &moved);
  FailureOr<bool> execute(Rank &rank, Operation &op, plan::EntryAttr entry);
  LogicalResult launch(Rank &rank, plan::LaunchOp op, int64_t slot);
  void matmul(Rank &rank, plan::MatmulOp op, int64_t slot);
  FailureOr<bool> collective(Rank &rank, plan::CollectiveOp op, int64_t slot);
  FailureOr<int64_t> peer(const Rank &rank, Operation &op, StringRef axis, int64_t delta,
                          bool wrap);
  LogicalResult feed(Rank &rank, plan::FeedOp op, int64_t slot, int64_t microBatch);
  LogicalResult feedPart(Rank &rank, plan::FeedOp op, mlir::DictionaryAttr binding, int64_t slot,
                         int64_t microBatch, const Tensor &whole);

  Tensor read(const Rank &rank, Value buffer, int64_t slot) const;
  void write(Rank &rank, Value buffer, int64_t slot, const Tensor &value) const;
  double readScalar(StringRef name);
  NamedTensors gather(StringRef role, double &replicaError);
  NamedTensors gatherResults(double &replicaError);
  template <typename F> void forEachState(StringRef role, F f);
  template <typename F>
  void forEachElement(const Rank &rank, plan::BufferOp op, ArrayRef<int64_t> global, F f) const;

  ModuleOp module;
  const Trial &trial;
  parallel::MeshAttr mesh;
  std::vector<Stage> stages;
  std::vector<Rank> ranks;
  const StepData *data = nullptr;
  std::map<std::tuple<std::vector<int64_t>, int64_t>, Meeting> meetings; // by group and stream
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::deque<std::vector<Tensor>>> messages;
  llvm::DenseMap<Operation *, std::unique_ptr<Block>> products; // a graph.matmul for each
};

mlir::RankedTensorType tensorOf(Value buffer);

} // namespace llmc::verify::machine

#endif // LLMC_LIB_VERIFY_PLANMACHINEPARTS_H

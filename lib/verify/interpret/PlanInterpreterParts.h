// Declares the plan interpreter's state and class. Internal to PlanInterpreter*.cpp. Tested by
// test/passes/5-schedule/RunTest.cpp and FlatStatesTest.cpp,
// test/verify/steps/RepeatedStepsTest.cpp.
#ifndef LLMC_LIB_VERIFY_INTERPRET_PLANINTERPRETERPARTS_H
#define LLMC_LIB_VERIFY_INTERPRET_PLANINTERPRETERPARTS_H

#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Evaluate.h"
#include "lib/verify/interpret/PlanInterpreter.h"
#include "lib/verify/interpret/Sources.h"

#include <deque>
#include <random>

namespace llmc::verify::plan_interpreter {

using mlir::ArrayRef;
using mlir::Block;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::ModuleOp;
using mlir::Operation;
using mlir::SmallVector;
using mlir::StringRef;
using mlir::Value;

// Locates a buffer in the cells of a rank's arena: a cell is one double for `granule` bytes.
struct CellRange {
  int64_t offset = 0, stride = 0; // in cells: of slot 0; between slots
  int64_t step = 1, cells = 0;    // cells of an element; of the whole buffer
  int64_t pool = 0;               // slot pool that `stride` refers to
  std::vector<int64_t> shape;
};

// Describes the elements of a tensor that a rank holds in a buffer: its whole shard, or the part
// of it in the rank's range of a flat buffer.
struct Held {
  std::string state;            // symbol of the state; empty for a result
  std::vector<int64_t> shape;   // of the shard
  SmallVector<int64_t> starts;  // position of the shard in the whole tensor
  int64_t shift = 0;            // element i of the shard is element i + shift of the buffer
};

struct Stage {
  plan::StageOp op;
  int64_t granule = 1;
  llvm::DenseMap<Value, CellRange> cellRanges;
  llvm::StringMap<plan::ProcedureOp> procedures;
  SmallVector<plan::EntryAttr> table;
};

// Describes one execution of an instruction, in issue order of its rank; a wait has the number of
// the record that it waits for, or -1.
struct Issued {
  Operation *op = nullptr;
  plan::EntryAttr entry;
  int64_t number = 0, record = -1;
};

struct Rank {
  int64_t id = 0;
  Stage *stage = nullptr;
  SmallVector<int64_t> coordinate;
  std::vector<double> cells;
  SmallVector<int64_t> slots; // slot of each pool, for the current instruction
  size_t entry = 0;
  Block::iterator next;
  bool entered = false; // `next` belongs to `entry`
  bool posted = false;  // the rank's operand of the current collective is posted
  bool done() const { return entry == stage->table.size(); }
  // Holds the rest of each stream; `ended` marks the executions that ended. For drawn orders.
  std::map<int64_t, std::deque<Issued>> streams;
  std::vector<bool> ended;
};

// Represents a pending collective of a group on one stream.
struct PendingCollective {
  std::vector<int64_t> group;
  std::map<int64_t, std::vector<Tensor>> parts; // operands by rank
  std::map<int64_t, Tensor> results; // results by rank that it has not fetched yet
};

class PlanInterpreter {
public:
  PlanInterpreter(ModuleOp module, const Trial &trial)
      : module(module), symbols(module), trial(trial) {}
  FailureOr<Outcome> run();
  // Interprets one step from `states` (by symbol), in an order drawn from `random`.
  FailureOr<parallel::StepOutput> runDrawn(const NamedTensors &states, std::mt19937 &random);

private:
  LogicalResult prepare();
  void placeBuffers(Stage &stage);
  LogicalResult checkAxes(plan::BufferOp op) const;
  void fillStates(const NamedTensors &states);
  void fillDrawn(const NamedTensors &states);
  void setScalars();
  LogicalResult step(const StepData &data);
  LogicalResult advance(Rank &rank, bool &moved);
  FailureOr<plan::LaneAttr> takeSlots(Rank &rank, Operation &op, plan::EntryAttr entry) const;
  FailureOr<bool> execute(Rank &rank, Operation &op, plan::EntryAttr entry);
  LogicalResult writeParts(Rank &rank, plan::RecvOp recv, const std::vector<Tensor> &message);
  FailureOr<bool> executeAlone(Rank &rank, Operation &op, int64_t microBatch);
  LogicalResult checkInPlace(const Rank &rank, plan::LaunchOp op) const;
  LogicalResult launch(Rank &rank, plan::LaunchOp op);
  void matmul(Rank &rank, plan::MatmulOp op);
  void groupedMatmul(Rank &rank, plan::GroupedMatmulOp op);
  std::vector<Tensor> operandsOf(const Rank &rank, plan::CollectiveOp op) const;
  FailureOr<bool> collective(Rank &rank, plan::CollectiveOp op);
  FailureOr<int64_t> peer(const Rank &rank, Operation &op, StringRef axis, int64_t delta,
                          bool wrap);
  LogicalResult feed(Rank &rank, plan::FeedOp op, int64_t microBatch);
  LogicalResult feedPart(Rank &rank, plan::FeedOp op, plan::InputBindingAttr binding,
                         int64_t microBatch, const Tensor &whole);

  Tensor read(const Rank &rank, Value buffer) const;
  void write(Rank &rank, Value buffer, const Tensor &value) const;

  // Runs the streams in a drawn order (PlanInterpreterOrder.cpp).
  void issue(Rank &rank);
  LogicalResult stepDrawn(std::mt19937 &random);
  LogicalResult advanceStream(Rank &rank, int64_t stream, bool &moved);
  LogicalResult advanceMessages(Rank &rank, int64_t stream, size_t count, bool &moved);
  FailureOr<bool> receive(Rank &rank, const Issued &head);
  LogicalResult collectTogether(Rank &rank, plan::CollectiveOp op, int64_t stream, bool &moved);
  void end(Rank &rank, int64_t stream, size_t place = 0);
  NamedTensors gatherOutputs(double &maxReplicaDifference);

  // Returns the names of the step's outputs, and the value of one.
  std::set<std::string> scalarNames();
  double readScalar(StringRef name);
  NamedTensors gather(graph::Role role, double &maxReplicaDifference);
  NamedTensors gatherResults(double &maxReplicaDifference);
  int64_t partOf(const Rank &rank, ArrayRef<mlir::StringAttr> axes) const;
  Held heldAs(const Rank &rank, mlir::ArrayAttr dims, std::vector<int64_t> shape,
              plan::StateBindingAttr state = {}) const;
  SmallVector<Held> heldIn(const Rank &rank, plan::BufferOp op) const;
  template <typename F> void forEachBuffer(graph::Role role, F f);
  template <typename F>
  void forEachElement(const Rank &rank, plan::BufferOp op, const Held &held,
                      ArrayRef<int64_t> global, F f) const;

  ModuleOp module;
  mlir::SymbolTable symbols; // of `module`, whose lookups pass by all sources of a mixture
  const Trial &trial;
  parallel::MeshAttr mesh;
  std::vector<Stage> stages;
  std::vector<Rank> ranks;
  const StepData *data = nullptr;
  int64_t collectives = 0; // collectives run in a drawn order, counted once a group
  std::map<std::tuple<std::vector<int64_t>, int64_t>, PendingCollective>
      meetings; // by group and stream
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::deque<std::vector<Tensor>>> messages;
  llvm::DenseMap<Operation *, std::unique_ptr<Block>> products; // one product of graph each
};

mlir::RankedTensorType tensorOf(Value buffer);
// Returns the ranks of a collective's group, in group order; empty if an axis is not in the mesh.
std::vector<int64_t> groupOf(parallel::MeshAttr mesh, const Rank &rank, plan::CollectiveOp op);
// Returns the result for member `index` of a group, given all operands of each member in group order.
// Emits an error if they do not fit it.
FailureOr<Tensor> combine(plan::CollectiveOp op, const std::vector<const Tensor *> &parts,
                          size_t index, const std::vector<int64_t> &shape);

} // namespace llmc::verify::plan_interpreter

#endif // LLMC_LIB_VERIFY_INTERPRET_PLANINTERPRETERPARTS_H

// Assigns buffers to the values of a stage's function, before instructions are built. Test:
// test/passes/5-schedule/BufferAssignmentTest.cpp.
#ifndef LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_BUFFERASSIGNMENT_H
#define LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_BUFFERASSIGNMENT_H

#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc {

// Identifies the bytes of a root buffer from `displacement` on; the value's type gives their
// number.
struct BufferSlice {
  int root = -1;
  int64_t displacement = 0;
  bool operator==(const BufferSlice &o) const {
    return root == o.root && displacement == o.displacement;
  }
  explicit operator bool() const { return root >= 0; }
};

// Represents a root buffer of the stage, a plan.buffer without parent.
struct RootBuffer {
  mlir::RankedTensorType type;
  plan::Space space = plan::Space::scratch;
  mlir::Attribute binding; // may be null
  // Binds equal parts along dim 0 instead, one after the other: the layers of a flat tensor.
  llvm::SmallVector<mlir::Attribute, 0> parts;
  mlir::Value buffer;           // built on first use
  int64_t lives = 0;            // values that took the bytes of another one
};

int64_t byteSize(mlir::Type type);

// Returns whether `op` only renames contiguous bytes of its operand: a reshape, or a slice of rows
// behind dims of size 1. Sets `displacement` to the byte offset inside the operand.
bool isView(mlir::Operation *op, int64_t &displacement);

// Returns whether `op` is a concat along dim 0 whose parts are written directly at their offsets.
// All parts and views must nest; a concat with a view that cuts a part is a launch, which writes it
// whole.
bool isConcatInPlace(mlir::Operation *op);

// Returns whether the op that reads `read` may write its result `written` over it.
bool mayOverwriteOperand(mlir::OpOperand &read, mlir::Value written);

// Holds what is known of a function before its values have allocations.
struct AssignmentInputs {
  llvm::DenseMap<mlir::Value, BufferSlice> arguments;
  llvm::SmallVector<mlir::Value> received; // arguments that a message may write anywhere
  // Holds per result the allocation of its state or output, else a null one; and whether it
  // outlives the procedure in its slot.
  std::vector<BufferSlice> returned;
  llvm::SmallVector<bool> escapes;
  // Lists roots that no later procedure reads: their bytes may be reused.
  llvm::DenseSet<int> consumed;
};

// Assigns every value of one function its allocation, and appends new roots to `roots`.
class BufferAssignment {
public:
  BufferAssignment(mlir::func::FuncOp func, std::vector<RootBuffer> &roots, AssignmentInputs known);

  BufferSlice lookup(mlir::Value value) const { return places.lookup(value); }
  // Returns which of the values that share its bytes one after the other `value` is; 0: the first.
  int64_t generationOf(mlir::Value value) const { return lives.lookup(value); }
  // Returns whether the matmul adds to its accumulator in place; the add that used it is elided.
  bool accumulates(mlir::Operation *matmul) const { return accumulating.contains(matmul); }
  bool isElided(mlir::Operation *op) const { return elided.contains(op); }

private:
  struct Read {
    int64_t order, low, high;
    mlir::Operation *op;
    unsigned operand;
  };
  void collectArgumentViews();
  void collectEscaping(llvm::ArrayRef<bool> escapes);
  void requestSlices(llvm::ArrayRef<BufferSlice> returned, llvm::ArrayRef<bool> escapes);
  void requestSlice(mlir::Value value, BufferSlice place);
  bool mayOverwrite(mlir::Value value, BufferSlice place) const;
  bool fuseAccumulation(mlir::Operation *add);
  void forwardRequest(mlir::Operation *op);
  void scatterInPlace(mlir::Operation *op);
  bool readsEndBefore(mlir::Value value, mlir::Value overwriter) const;
  void assignRequested(mlir::Value value, BufferSlice place);
  void recordLiveRange(mlir::Value value, BufferSlice place, int64_t last = -1);
  BufferSlice reuse(mlir::Value result) const;
  void assignSlice(mlir::Value value, BufferSlice place);
  void assignAfter(mlir::Value value, BufferSlice place);
  void assign();

  mlir::func::FuncOp func;
  std::vector<RootBuffer> &roots;
  llvm::DenseMap<mlir::Value, BufferSlice> places;
  llvm::DenseMap<mlir::Value, int64_t> lives;
  llvm::DenseMap<mlir::Value, BufferSlice> requested;
  llvm::DenseMap<int, llvm::SmallVector<mlir::Value>> requestedIn; // root -> values written there
  llvm::DenseSet<mlir::Value> escaping;
  AssignmentInputs known;
  // Represents bytes that hold a value until `last`, the position of its last reader.
  struct Occupant {
    mlir::Value value;
    int64_t low, high, last;
  };
  llvm::DenseMap<int, std::vector<Occupant>> occupants;
  llvm::DenseMap<mlir::Operation *, int64_t> order;
  llvm::DenseMap<int, std::vector<Read>> reads; // of argument roots
  llvm::DenseSet<mlir::Operation *> accumulating, elided;
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_BUFFERASSIGNMENT_H

// Where the values of a stage's function live, before instructions are built.
#ifndef LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_PLACES_H
#define LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_PLACES_H

#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc {

// Bytes [displacement, ...) of a root buffer.
struct Place {
  int root = -1;
  int64_t displacement = 0;
  bool operator==(const Place &o) const { return root == o.root && displacement == o.displacement; }
  explicit operator bool() const { return root >= 0; }
};

// A root buffer of the stage: one plan.buffer without parent.
struct Root {
  mlir::RankedTensorType type;
  plan::Space space = plan::Space::scratch;
  mlir::DictionaryAttr binding; // may be null
  mlir::Value buffer;           // built on first use
  int64_t lives = 0;            // values that took the bytes of another one
};

int64_t byteSize(mlir::Type type);

// True if `op` only renames bytes of its operand: a reshape, or a slice of
// leading rows. `displacement` is the offset inside the operand.
bool isView(mlir::Operation *op, int64_t &displacement);

// A concat along the leading dim whose parts are written where they belong. Tensors and
// their parts nest: one with a view that cuts a part is a launch, which writes it whole.
bool isPutTogether(mlir::Operation *op);

// May the op that reads `read` write its result `written` over it?
bool mayReplace(mlir::OpOperand &read, mlir::Value written);

// What is known of a function before its values have places.
struct Known {
  llvm::DenseMap<mlir::Value, Place> arguments;
  llvm::SmallVector<mlir::Value> received; // arguments that arrive wherever they are wanted
  // A place for each result that must end in a state, else a null one; whether it outlives
  // the procedure in its slot.
  std::vector<Place> returned;
  llvm::SmallVector<bool> escapes;
  // Roots that nobody reads after this procedure: their bytes may serve again.
  llvm::DenseSet<int> consumed;
};

// Decides the place of every value of one function. New roots are appended to `roots`.
class Places {
public:
  Places(mlir::func::FuncOp func, std::vector<Root> &roots, Known known);

  Place lookup(mlir::Value value) const { return places.lookup(value); }
  // Values that follow each other in one place are told apart by their lives; 0: the first.
  int64_t lifeOf(mlir::Value value) const { return lives.lookup(value); }
  // The matmul writes onto its accumulator; the add that used it is gone.
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
  void requestHomes(llvm::ArrayRef<Place> returned, llvm::ArrayRef<bool> escapes);
  void requestHome(mlir::Value value, Place place);
  bool mayOverwrite(mlir::Value value, Place place) const;
  bool fuseAccumulation(mlir::Operation *add);
  void passHome(mlir::Operation *op);
  bool readsEndBefore(mlir::Value value, mlir::Value overwriter) const;
  void setHome(mlir::Value value, Place place);
  void occupy(mlir::Value value, Place place, int64_t last = -1);
  Place reuse(mlir::Value result) const;
  void give(mlir::Value value, Place place);
  void succeed(mlir::Value value, Place place);
  void assign();

  mlir::func::FuncOp func;
  std::vector<Root> &roots;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Value, int64_t> lives;
  llvm::DenseMap<mlir::Value, Place> homes;
  llvm::DenseMap<int, llvm::SmallVector<mlir::Value>> homed; // root -> values written there
  llvm::DenseSet<mlir::Value> escaping;
  Known known;
  // Bytes that hold a value until `last`, the place of its last reader.
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

#endif // LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_PLACES_H

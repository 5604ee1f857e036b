// Emits a group of graph ops as expressions over the points of one loop nest. Cases:
// test/passes/6-emit/GroupCases.cpp.
//
// Every tensor of the group is an expression at a point of the iteration space: buffers are
// loaded there, elementwise ops apply their entry, and transposes, slices and broadcasts only
// change where their operand is read. A reduction root (an op that reduces some loops) defines
// its results as values per row or per element, which its users read.
#ifndef LLMC_PASSES_EMIT_GROUP_FUSEDGROUP_H
#define LLMC_PASSES_EMIT_GROUP_FUSEDGROUP_H

#include "passes/6-emit/kernel/Kernel.h"
#include "passes/6-emit/kernel/Math.h"

namespace llmc::emit {

// Maps the loops to an index of a tensor: scale * loop + offset, or, with loop -1, the constant
// offset.
struct DimIndex {
  int loop = -1;
  int64_t scale = 0, offset = 0;
  bool operator==(const DimIndex &) const = default;
};
using IndexMap = llvm::SmallVector<DimIndex, 4>;

struct Loop {
  int64_t size;
  bool reduced;
  bool column = false; // reduced by sums over columns, each row at a time
  // Marks the outermost loop in memory: no stride depends on its size, so the launch passes the
  // size and kernels of other sizes are the same.
  bool outermost = false;
};

// Represents a point of the nest: an index per loop entered so far (of the vector loop the first
// of `width` indices), and the values known there.
struct Point {
  llvm::SmallVector<Value, 4> index;
  unsigned width = 1;
  llvm::DenseMap<unsigned, Value> loaded;                 // access -> scalar
  llvm::DenseMap<std::pair<Value, unsigned>, Value> done; // (tensor, map) -> value

  explicit Point(size_t loops) : index(loops) {}
  // Returns the point further inside, at `value` of `loop`. Loaded scalars are kept, computed
  // values are not, since the width may differ.
  Point inside(unsigned loop, Value value, unsigned width = 1) const {
    Point point(index.size());
    point.index = index;
    point.index[loop] = value;
    point.width = width;
    point.loaded = loaded;
    return point;
  }
};

class FusedGroup {
public:
  // Describes a launch by its `reads` leading block arguments, which are buffers (the others are
  // scalars), the `shape` of the iteration space, and the dims that reduction roots (`reduced`)
  // and column sums (`columns`) reduce.
  FusedGroup(Kernel &kernel, unsigned reads, llvm::ArrayRef<int64_t> shape,
        llvm::ArrayRef<bool> reduced, llvm::ArrayRef<bool> columns = {});

  Kernel &kernel;
  // Holds the loops after fuseLoops(), in order of memory.
  llvm::SmallVector<Loop, 4> loops;

  // Returns the index map of a tensor of the iteration space's shape, of one without the reduced
  // dims, of one without those that column sums reduce, and of operand `i` of root `op`.
  IndexMap fullMap() const;
  IndexMap keptMap() const;
  IndexMap columnMap() const;
  IndexMap rootOperandMap(mlir::Operation *op, unsigned i) const;

  // Declares (step 1) what will be read and written; require() visits all producers of `tensor`.
  mlir::LogicalResult require(Value tensor, const IndexMap &map);
  void requireStore(unsigned buffer, mlir::RankedTensorType type, const IndexMap &map);
  // Merges (step 2) the loops that every access traverses as one.
  void fuseLoops();
  // Emits code (step 3). preload() loads what is uniform over all loops not yet entered.
  void preload(Point &point);
  Value at(Value tensor, const IndexMap &map, Point &point);
  Value rootOperand(mlir::Operation *op, unsigned i, Point &point) {
    return at(op->getOperand(i), rootOperandMap(op, i), point);
  }
  void store(unsigned buffer, Value value, Point &point);

  // Returns an i1 that is true when the launch writes so much along the last loop that
  // non-temporal stores pay, or null if they are impossible. Adds an extent behind `scalars`.
  Value nonTemporalCondition(unsigned scalars);
  // Runs `body` with non-temporal stores along the last loop; nonTemporalIf() emits both versions
  // and selects by the i1 `condition`, where null means never.
  void nonTemporal(const std::function<void()> &body);
  void nonTemporalIf(Value condition, const std::function<void()> &body);
  // Returns the loop, other than the last, along which reads are contiguous that are strided
  // along the last one, if all such reads agree.
  std::optional<unsigned> transposedLoop() const;
  // Reads these in tiles of lanes() x lanes() points at `corner`, transposed in registers: for
  // each access its rows along the last loop, none for others. useTileRow() loads row `r`.
  using TransposedTiles = std::vector<llvm::SmallVector<Value>>;
  TransposedTiles readTransposedTiles(const Point &corner);
  void useTileRow(const TransposedTiles &squares, unsigned r, Point &point);
  // Keeps such tiles in stack arrays, one for each access (null for others).
  std::vector<Value> allocateTiles();
  void storeTiles(const TransposedTiles &squares, llvm::ArrayRef<Value> places);
  void loadTileRow(llvm::ArrayRef<Value> places, Value r, Point &point);
  // Prefetches `width` points along the last loop and `height` along the crossed one.
  void prefetchTiles(const Point &corner, int64_t height, int64_t width);
  // Prefetches pieces that are contiguous along the last loop, but not with each other along
  // `loop`, some iterations of it ahead.
  void prefetchPieces(const Point &point, unsigned loop);
  // Broadcasts `value` to the width of the point.
  Value spread(Value value, const Point &point);

  // Makes vector loads prefetch the same position of the next row: it arrives while this row is
  // computed, whereas the hardware prefetcher alone would start only at that row.
  bool prefetchesNextRow = false;
  // Prefetches likewise some iterations ahead of this reduced loop, whose pieces lie far apart.
  std::optional<unsigned> prefetchedLoop;

  // Defines what a reduction root computed: one value a row, or a value at each point.
  void defineRow(Value tensor, Value value) { rowValues[tensor] = value; }
  using ElementFn = std::function<Value(Point &)>;
  void defineElements(Value tensor, ElementFn fn) { elementValues[tensor] = std::move(fn); }

  Math math() { return Math{kernel.b, kernel.loc}; }

private:
  bool storesNonTemporally = false;
  // Describes an affine access to a buffer, a scalar, constants or (none of these) integers.
  struct Access {
    Value tensor; // null for stores
    IndexMap map;
    Type element;
    int buffer = -1, scalar = -1;
    mlir::DenseElementsAttr data;
    int64_t offset = 0;
    llvm::SmallVector<int64_t, 4> strides; // per loop
  };
  unsigned reads;
  llvm::SmallVector<int64_t, 4> shape;
  llvm::SmallVector<bool, 4> reduced, columns;
  llvm::SmallVector<Access, 8> accesses;
  llvm::SmallVector<IndexMap, 8> maps; // interned, for Point::done
  llvm::DenseMap<Value, Value> rowValues;
  llvm::DenseMap<Value, ElementFn> elementValues;

  unsigned intern(const IndexMap &map);
  void addAccess(Access access, llvm::ArrayRef<int64_t> tensorShape);
  int find(Value tensor, const IndexMap &map) const;
  bool isCrossed(const Access &access) const;
  void readAhead(const Access &access, Value base, Value first, unsigned width);
  bool isUniform(const Access &access, const Point &point) const;
  Value linear(const Access &access, const Point &point);
  Value load(unsigned access, Point &point);
  Value integers(unsigned access, Point &point);
  Value oneHotLane(graph::OneHotOp op, unsigned access, llvm::ArrayRef<Value> in, Point &point);
  Value compute(Value tensor, const IndexMap &map, Point &point);
};

// Returns where operand `i` of a movement or elementwise op is read when its result is wanted at
// `map`. Fails, without a diagnostic, on ops that are no function of one point.
mlir::FailureOr<IndexMap> operandMap(mlir::Operation *op, unsigned i, const IndexMap &map);

// Returns the dim whose index an op depends on, if it does.
std::optional<unsigned> indexedDim(mlir::Operation *op);

// Represents the emitter of an elementwise op, which appends its results at a point to `out`.
using ElementwiseEmitter = void (*)(Math &math, mlir::Operation *op, llvm::ArrayRef<Value> in,
                              llvm::SmallVectorImpl<Value> &out);
// Returns null if the op has none.
ElementwiseEmitter lookupElementwise(mlir::Operation *op);

// Describes a reduction root: which operands follow the leading dims (a bit set; the others
// broadcast as in NumPy), how often it traverses a row before its results are known, which dims
// of operand 0 it reduces, and its emitter. lookupReductionRoot() returns null for any other op.
class Reducer;
struct ReductionRoot {
  unsigned leadingOperands;
  unsigned walks;
  llvm::SmallVector<bool, 4> (*reducedDims)(mlir::Operation *op);
  void (*emit)(Reducer &reducer, mlir::Operation *op);
};
const ReductionRoot *lookupReductionRoot(mlir::Operation *op);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_GROUP_FUSEDGROUP_H

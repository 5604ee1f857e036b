// A group of graph ops as expressions over the points of one loop nest.
//
// Every tensor of the group is an expression at a point of the iteration space:
// buffers are loaded there, elementwise ops apply their entry, transposes,
// slices and broadcasts only change where their operand is read. A hero (a
// reduction over some loops) defines its results as values per row or per
// element, and what consumes them reads those.
#ifndef LLMC_PASSES_EMIT_GROUP_GROUP_H
#define LLMC_PASSES_EMIT_GROUP_GROUP_H

#include "passes/6-emit/kernel/Kernel.h"
#include "passes/6-emit/kernel/Math.h"

namespace llmc::emit {

// How an index of a tensor follows the loops: scale * loop + offset, or, with
// loop -1, the constant offset.
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
  // The outermost loop in memory: no stride depends on its size, so the size is
  // left to the launch and kernels of other sizes are the same.
  bool outermost = false;
};

// A place in the nest: an index per loop entered so far (of the vector loop the
// first of `width`), and what is known there.
struct Point {
  llvm::SmallVector<Value, 4> index;
  unsigned width = 1;
  llvm::DenseMap<unsigned, Value> loaded;                 // access -> scalar
  llvm::DenseMap<std::pair<Value, unsigned>, Value> done; // (tensor, map) -> value

  explicit Point(size_t loops) : index(loops) {}
  // The point further inside, at `value` of `loop`. Nothing computed is kept:
  // its width may differ.
  Point inside(unsigned loop, Value value, unsigned width = 1) const {
    Point point(index.size());
    point.index = index;
    point.index[loop] = value;
    point.width = width;
    point.loaded = loaded;
    return point;
  }
};

class Group {
public:
  // `reads` block arguments stand for buffers, the others for scalars of the
  // launch. The iteration space has `shape`; heroes reduce the dims `reduced`, sums
  // over columns the dims `columns`.
  Group(Kernel &kernel, unsigned reads, llvm::ArrayRef<int64_t> shape,
        llvm::ArrayRef<bool> reduced, llvm::ArrayRef<bool> columns = {});

  Kernel &kernel;
  // After fuseLoops(), in order of memory.
  llvm::SmallVector<Loop, 4> loops;

  // The maps of a tensor of the iteration space's shape, of one without the
  // reduced dims, of one without those that column sums reduce, and of operand `i`
  // of hero `op`.
  IndexMap fullMap() const;
  IndexMap keptMap() const;
  IndexMap columnMap() const;
  IndexMap heroMap(mlir::Operation *op, unsigned i) const;

  // Step 1: declares what will be read and written.
  mlir::LogicalResult require(Value tensor, const IndexMap &map);
  void requireStore(unsigned buffer, mlir::RankedTensorType type, const IndexMap &map);
  // Step 2: merges the loops that every access walks as one.
  void fuseLoops();
  // Step 3: code. preload() loads what is the same in all loops not yet entered.
  void preload(Point &point);
  Value at(Value tensor, const IndexMap &map, Point &point);
  Value heroOperand(mlir::Operation *op, unsigned i, Point &point) {
    return at(op->getOperand(i), heroMap(op, i), point);
  }
  void store(unsigned buffer, Value value, Point &point);

  // Whether the launch writes so much along the last loop that it had better go past the
  // cache: an i1, or null if vectors do not lie at multiples of their size. Adds an extent;
  // `scalars` is the number of the launch's own.
  Value writesPastCache(unsigned scalars);
  // Runs `body`, whose stores along the last loop go past the cache; or, depending on the
  // i1 `condition` that is null for never, either way.
  void pastCache(const std::function<void()> &body);
  void pastCacheIf(Value condition, const std::function<void()> &body);
  // A loop other than the last along which some reads are contiguous that jump along the
  // last one, if all such reads agree.
  std::optional<unsigned> crossedLoop() const;
  // Such reads are done in squares of lanes() x lanes() points at `corner`: for each access
  // its rows along the last loop, none for other accesses; and the values of row `r`.
  using Squares = std::vector<llvm::SmallVector<Value>>;
  Squares readSquares(const Point &corner);
  void takeFromSquares(const Squares &squares, unsigned r, Point &point);
  // The same by way of places on the stack.
  std::vector<Value> placesOfSquares();
  void keepSquares(const Squares &squares, llvm::ArrayRef<Value> places);
  void takeFromPlaces(llvm::ArrayRef<Value> places, Value r, Point &point);
  // Lets `width` points along the last loop and `height` along the crossed one be fetched.
  void fetchSquares(const Point &corner, int64_t height, int64_t width);
  // The same of pieces that lie along the last loop, but not one behind the other along
  // `loop`, some turns of it before theirs.
  void fetchPieces(const Point &point, unsigned loop);
  // `value` as wide as the point.
  Value spread(Value value, const Point &point);

  // While set, vectors that are read let the same place of the next row be fetched: it
  // comes while this row is computed, which a reading ahead by the processor alone, once
  // the row has come, would not do.
  bool readsAhead = false;
  // The same for turns of this reduced loop, some before theirs, whose pieces lie far apart.
  std::optional<unsigned> piecesAhead;

  // What a hero computed: one value a row, or a value at each point.
  void defineRow(Value tensor, Value value) { rowValues[tensor] = value; }
  using ElementFn = std::function<Value(Point &)>;
  void defineElements(Value tensor, ElementFn fn) { elementValues[tensor] = std::move(fn); }

  Math math() { return Math{kernel.b, kernel.loc}; }

private:
  bool isPastCache = false;
  // An affine walk over a buffer, over constant data or (neither) over the integers.
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

// Where operand `i` of a movement or elementwise op is read when its result is
// wanted at `map`. Fails on ops that are no function of one point.
mlir::FailureOr<IndexMap> operandMap(mlir::Operation *op, unsigned i, const IndexMap &map);

// The dim whose index an op looks at, if it does.
std::optional<unsigned> indexedDim(mlir::Operation *op);

// Entry of an elementwise op: results at a point from operands there.
using ElementEntry = void (*)(Math &math, mlir::Operation *op, llvm::ArrayRef<Value> in,
                              llvm::SmallVectorImpl<Value> &out);
// Null if the op has none.
ElementEntry lookupElement(mlir::Operation *op);

// Entry of a hero: which operands follow the leading dims (a bit set; the others
// broadcast as in NumPy), how often it walks a row before its results are known, which
// dims of operand 0 it reduces, and its code.
class Reducer;
struct HeroEntry {
  unsigned leadingOperands;
  unsigned walks;
  llvm::SmallVector<bool, 4> (*reducedDims)(mlir::Operation *op);
  void (*emit)(Reducer &reducer, mlir::Operation *op);
};
const HeroEntry *lookupHero(mlir::Operation *op);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_GROUP_GROUP_H

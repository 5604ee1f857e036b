// Recognises rotations by their terms: around every concatenation, each value is read as a linear
// function of each value above it.
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"
#include "passes/1-raise/RaiseRotary/Lanes.h"

#include "mlir/Transforms/RegionUtils.h"

#include <set>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISEROTARY
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

static constexpr size_t kReach = 40; // values above and below a concatenation

namespace {

// Describes a rotation: cos and sin hold the lanes of their tables, one per pair.
struct Rotation {
  SmallVector<TableLane> cos, sin;
  bool interleaved = false, inverse = false;
};

// Holds the terms of a lane of a pair: factor own.table * x[lane] + factor other.table * x[other].
struct PairTerms {
  Term own, other;
};

std::optional<PairTerms> pairTermsOf(const Terms &terms, int64_t lane) {
  if (terms.size() != 2)
    return std::nullopt;
  size_t own = terms[0].lane == lane ? 0 : 1;
  PairTerms pair{terms[own], terms[1 - own]};
  bool valid = pair.own.lane == lane && pair.other.lane != lane && pair.own.factor == 1 &&
               std::abs(pair.other.factor) == 1 && pair.own.table.table && pair.other.table.table;
  return valid ? std::optional(pair) : std::nullopt;
}

bool sameFrame(const PairTerms &a, const PairTerms &b) {
  return *a.own.table.frame == *b.own.table.frame && *a.other.table.frame == *b.other.table.frame;
}

bool isCopy(const Terms &terms, int64_t lane) {
  return terms.size() == 1 && terms[0].lane == lane && terms[0].factor == 1 &&
         !terms[0].table.table;
}

bool isIdentity(const std::vector<Terms> &lanes) {
  for (auto [lane, terms] : llvm::enumerate(lanes))
    if (!isCopy(terms, lane))
      return false;
  return true;
}

// Returns the rotation that `lanes` are, else nullopt; `tables` proves that tables are equal.
std::optional<Rotation> rotationOf(const std::vector<Terms> &lanes, RotaryTableLanes &tables) {
  int64_t rotated = 0, size = lanes.size();
  while (rotated < size && lanes[rotated].size() == 2)
    ++rotated;
  for (int64_t lane = rotated; lane < size; ++lane)
    if (!isCopy(lanes[lane], lane))
      return std::nullopt;
  int64_t half = rotated / 2;
  if (half == 0 || rotated % 2)
    return std::nullopt;
  Rotation rotation;
  auto first = pairTermsOf(lanes[0], 0);
  if (!first)
    return std::nullopt;
  rotation.interleaved = half > 1 && first->other.lane == 1;
  for (int64_t i = 0; i < half; ++i) {
    int64_t a = rotation.interleaved ? 2 * i : i, b = rotation.interleaved ? a + 1 : i + half;
    auto up = pairTermsOf(lanes[a], a), down = pairTermsOf(lanes[b], b);
    if (!up || !down || up->other.lane != b || down->other.lane != a)
      return std::nullopt;
    // y[a] = x[a] cos - x[b] sin and y[b] = x[b] cos + x[a] sin, sin up to one sign for all.
    int relation = tables.relation(up->other.table, down->other.table);
    if (!sameFrame(*up, *first) || !sameFrame(*down, *first))
      return std::nullopt;
    if (tables.relation(up->own.table, down->own.table) != 1 ||
        up->other.factor * relation != -down->other.factor)
      return std::nullopt;
    bool inverse = down->other.factor < 0;
    if (i > 0 && inverse != rotation.inverse)
      return std::nullopt;
    rotation.inverse = inverse;
    rotation.cos.push_back(up->own.table);
    rotation.sin.push_back(down->other.table);
  }
  return rotation;
}

// Identifies the leading dims of x that are batch and rows; the others hold heads.
struct Layout {
  size_t batch = 0, rows = 1;
};

// Describes a table [leading..., half] and the dims with which it was multiplied.
struct Placed {
  Value table;
  const LeadingDims *frame;

  SmallVector<int64_t> sizes() const { // of the frame's dims
    ArrayRef<int64_t> own = shapeOf(table).drop_back();
    own = own.take_back(std::min(own.size(), frame->size()));
    SmallVector<int64_t> all(frame->size() - own.size(), 1);
    all.append(own.begin(), own.end());
    return all;
  }
};

// Returns the dim of x, its last one not counted, that consists of `parts`; nullopt if there is
// none.
std::optional<size_t> dimOf(Value x, const Movement::Parts &parts) {
  int64_t stride = 1;
  for (size_t dim = shapeOf(x).size() - 1; dim-- > 0; stride *= shapeOf(x)[dim])
    if (!parts.empty() && parts == contiguousDim(shapeOf(x)[dim], stride))
      return dim;
  return std::nullopt;
}

// Returns the dims of x along which the table differs, in the table's order; nullopt if they are no
// dims of x.
std::optional<SmallVector<size_t>> varyingDims(Value x, const Placed &placed) {
  SmallVector<size_t> varying;
  for (auto [size, parts] : llvm::zip(placed.sizes(), *placed.frame)) {
    auto dim = size == 1 ? std::nullopt : dimOf(x, parts);
    if (dim)
      varying.push_back(*dim);
    else if (size != 1)
      return std::nullopt;
  }
  return varying;
}

std::optional<Layout> layoutOf(Value x, const Placed &cos, const Placed &sin) {
  ArrayRef<int64_t> shape = shapeOf(x).drop_back();
  auto c = varyingDims(x, cos), s = varyingDims(x, sin);
  if (!c || !s)
    return std::nullopt;
  std::set<size_t> all(c->begin(), c->end());
  all.insert(s->begin(), s->end());
  SmallVector<size_t> varying(all.begin(), all.end());
  if (shape.size() < 2 || varying.size() > 2 || (varying.size() == 2 && varying[0] != 0))
    return std::nullopt;
  if (varying.size() == 2 || (varying.size() == 1 && varying[0] != 0))
    return Layout{0, varying.back()};
  // The table differs along at most the first dim: x is a batch of single rows, or has rows in
  // front.
  for (size_t dim = 1; dim < shape.size(); ++dim)
    if (shape[dim] == 1)
      return Layout{0, dim};
  return varying.empty() ? std::nullopt : std::optional(Layout{1, 0});
}

class Raiser {
public:
  explicit Raiser(func::FuncOp func) : func(func) {}

  // Returns the number of rotations.
  unsigned run() {
    SmallVector<Value> cores;
    func.walk([&](ConcatOp op) {
      if (isFloat(op.getResult()))
        cores.push_back(op.getResult());
    });
    unsigned raised = llvm::count_if(cores, [&](Value core) { return raise(core); });
    func.walk(widen);
    IRRewriter rewriter(func.getContext());
    (void)runRegionDCE(rewriter, func->getRegions());
    return raised;
  }

private:
  static bool mayRotate(Operation *op) {
    return isa_and_nonnull<AddOp, SubOp, MulOp, NegOp, SliceOp, ConcatOp, ReshapeOp,
                           TransposeOp>(op);
  }

  static SmallVector<Value> below(Value core) {
    llvm::SetVector<Value> found;
    found.insert(core);
    for (size_t i = 0; i < found.size() && found.size() < kReach; ++i)
      for (Operation *user : found[i].getUsers())
        if (mayRotate(user))
          found.insert(user->getResult(0));
    return found.takeVector();
  }
  static SmallVector<Value> above(Value y) {
    llvm::SetVector<Value> found;
    found.insert(y);
    for (size_t i = 0; i < found.size() && found.size() < kReach; ++i)
      if (Operation *op = found[i].getDefiningOp(); mayRotate(op))
        found.insert(op->operand_begin(), op->operand_end());
    return found.takeVector();
  }

  // Replaces the widest rotation around `core`, so that copied lanes are part of it. Returns
  // whether there is one.
  bool raise(Value core) {
    SmallVector<Value> candidates = below(core);
    for (Value y : llvm::reverse(candidates)) {
      if (y.use_empty() || shapeOf(y).size() < 2 || y.getDefiningOp<TransposeOp>())
        continue;
      for (Value x : above(y))
        if (x != y && mayTurnInto(x, y) && replace(x, y))
          return true;
    }
    return false;
  }

  // Returns whether both have as many elements and as many lanes.
  static bool mayTurnInto(Value x, Value y) {
    return shapeOf(x).size() >= 2 && shapeOf(x).back() == shapeOf(y).back() &&
           elementOf(x) == elementOf(y) &&
           typeOf(x).getNumElements() == typeOf(y).getNumElements();
  }

  bool replace(Value x, Value y) {
    LinearLanes linear(x);
    if (!linear.isLinear(y))
      return false;
    std::vector<Terms> lanes = linear.lanesOf(y);
    for (Terms &terms : lanes)
      llvm::erase_if(terms, [](const Term &term) { return term.factor == 0; });
    bool moved = x.getType() != y.getType() || linear.frameOf(x) != linear.frameOf(y);
    if (isIdentity(lanes)) { // by angles of 0
      if (!moved)
        y.replaceAllUsesWith(x);
      return !moved;
    }
    auto rotation = rotationOf(lanes, tables);
    if (!rotation || dependsOnParameter(rotation->cos[0].table) ||
        dependsOnParameter(rotation->sin[0].table))
      return false;
    Value cos = tables.select(rotation->cos), sin = tables.select(rotation->sin);
    Placed c{cos, rotation->cos[0].frame}, s{sin, rotation->sin[0].frame};
    auto layout = cos && sin ? layoutOf(x, c, s) : std::nullopt;
    if (!layout)
      return false;
    Value raised = build(x, y, c, s, *rotation, *layout);
    y.replaceAllUsesWith(moved ? movedAs(raised, y, linear.frameOf(y)) : raised);
    return true;
  }

  // Moves `value`, of x's shape, to the dims of y.
  static Value movedAs(Value value, Value y, const LeadingDims &frame) {
    int64_t lanes = shapeOf(y).back();
    Movement movement;
    movement.base = value;
    movement.dims.assign(frame.begin(), frame.end());
    for (Movement::Parts &parts : movement.dims)
      for (Movement::Part &part : parts)
        part.stride *= lanes;
    movement.dims.resize(shapeOf(y).size());
    movement.dims.back() = contiguousDim(lanes, 1);
    OpBuilder builder(y.getDefiningOp());
    Build build(builder, y.getLoc());
    return rebuild(build, movement, 0);
  }

  // Widens a rotation of the first lanes, which is concatenated with a copy of the others.
  static void widen(ConcatOp concat) {
    if (concat.getInputs().size() != 2 || concat.getDim() + 1 != shapeOf(concat.getResult()).size())
      return;
    auto rotary = concat.getInputs()[0].getDefiningOp<RotaryOp>();
    auto first = rotary ? rotary.getX().getDefiningOp<SliceOp>() : SliceOp();
    auto rest = concat.getInputs()[1].getDefiningOp<SliceOp>();
    if (!first || !rest || first.getOperand() != rest.getOperand() ||
        first.getOperand().getType() != concat.getType())
      return;
    // Without steps, and the first from 0 on, the slices cover the value in order: their sizes add
    // up.
    auto isOne = [](int64_t step) { return step == 1; };
    if (!llvm::all_of(first.getSteps(), isOne) || !llvm::all_of(rest.getSteps(), isOne) ||
        first.getStarts().back() != 0 || rest.getStarts().back() != first.getLimits().back())
      return;
    OpBuilder builder(concat);
    Value wide = RotaryOp::create(builder, concat.getLoc(), concat.getType(), first.getOperand(),
                                  rotary.getCos(), rotary.getSin(), rotary.getInterleavedAttr(),
                                  rotary.getInverseAttr());
    concat.getResult().replaceAllUsesWith(wide);
  }

  // Arranges a table as [batch | 1, rows, half], right behind its definition so that all layers
  // share it.
  Value arrangeTable(const Placed &placed, Value x, Layout layout) {
    Value table = placed.table;
    int64_t batch = 1, rows = 1, count = shapeOf(x)[layout.rows], half = shapeOf(table).back();
    SmallVector<size_t> varying = *varyingDims(x, placed);
    for (size_t dim : varying)
      (dim == layout.rows ? rows : batch) = shapeOf(x)[dim];
    bool rowsFirst = varying.size() == 2 && varying[0] == layout.rows;
    Value &arranged =
        arrangedTables[{table.getAsOpaquePointer(), batch, rows, rowsFirst, count}];
    if (arranged)
      return arranged;
    OpBuilder builder(func.getContext());
    builder.setInsertionPointAfterValue(table);
    Build build(builder, table.getLoc());
    Value flat =
        build.reshape(table, {rowsFirst ? rows : batch, rowsFirst ? batch : rows, half});
    if (rowsFirst)
      flat = build.transpose(flat, {1, 0, 2});
    arranged = build.broadcast(flat, {batch, count, half});
    return arranged;
  }

  Value build(Value x, Value y, const Placed &c, const Placed &s, const Rotation &rotation,
              Layout layout) {
    Value cos = arrangeTable(c, x, layout), sin = arrangeTable(s, x, layout);
    // Broadcast both tables to one batch size.
    int64_t batches = std::max(shapeOf(cos)[0], shapeOf(sin)[0]);
    OpBuilder builder(y.getDefiningOp());
    Build build(builder, y.getLoc());
    for (Value *table : {&cos, &sin})
      *table = build.broadcast(*table, {batches, shapeOf(*table)[1], shapeOf(*table)[2]});
    ArrayRef<int64_t> shape = shapeOf(x);
    SmallVector<int64_t> order{int64_t(layout.batch), int64_t(layout.rows)}, moved, back;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (dim != layout.batch && dim != layout.rows)
        order.push_back(dim);
    int64_t heads = 1;
    for (int64_t dim : order)
      moved.push_back(shape[dim]);
    for (int64_t size : ArrayRef(moved).drop_front(2).drop_back())
      heads *= size;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      back.push_back(llvm::find(order, dim) - order.begin());
    Value turned = llvm::is_sorted(order) ? x : build.transpose(x, order);
    turned = build.reshape(turned, {moved[0], moved[1], heads, moved.back()});
    Value raised = RotaryOp::create(
        builder, y.getLoc(), turned.getType(), turned, cos, sin,
        rotation.interleaved ? builder.getUnitAttr() : UnitAttr(),
        rotation.inverse ? builder.getUnitAttr() : UnitAttr());
    raised = build.reshape(raised, moved);
    return llvm::is_sorted(order) ? raised : build.transpose(raised, back);
  }

  func::FuncOp func;
  RotaryTableLanes tables;
  std::map<std::tuple<void *, int64_t, int64_t, bool, int64_t>, Value> arrangedTables;
};

struct RaiseRotary : llmc::impl::RaiseRotaryBase<RaiseRotary> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    numRaised += Raiser(getOperation()).run();
    // Fold transposes around a rotation with those that make its layout.
    RewritePatternSet patterns(&getContext());
    populateDropIdentities(patterns);
    populateAbsorbTransposes(patterns);
    if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

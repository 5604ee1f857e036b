// Assigns buffers to the values of a stage's function.
#include "passes/5-schedule/BuildProcedures/BufferAssignment.h"

namespace llmc {
using namespace mlir;

int64_t byteSize(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t bits = tensor.getElementType().getIntOrFloatBitWidth();
  return tensor.getNumElements() * std::max<int64_t>(1, bits / 8);
}

bool isView(Operation *op, int64_t &displacement) {
  displacement = 0;
  if (isa<graph::ReshapeOp>(op))
    return true;
  auto slice = dyn_cast<graph::SliceOp>(op);
  if (!slice)
    return false;
  auto type = cast<RankedTensorType>(slice.getOperand().getType());
  // A slice is contiguous if every dimension before the cut one has size 1 and every one after it
  // is whole.
  int64_t rank = type.getRank(), cut = -1;
  for (int64_t d = 0; d < rank; ++d) {
    if (slice.getSteps()[d] != 1)
      return false;
    bool whole = slice.getStarts()[d] == 0 && slice.getLimits()[d] == type.getDimSize(d);
    if (whole)
      continue;
    if (cut >= 0)
      return false;
    cut = d;
  }
  if (cut < 0)
    return true;
  int64_t inner = 1;
  for (int64_t d = 0; d < rank; ++d) {
    if (d < cut && type.getDimSize(d) != 1)
      return false;
    if (d > cut)
      inner *= type.getDimSize(d);
  }
  int64_t element = byteSize(type) / type.getNumElements();
  displacement = slice.getStarts()[cut] * inner * element;
  return true;
}

// Returns true where each element is written only after every read of it: in an elementwise op, and
// in a group that reads the tensor only element by element over its whole shape.
bool mayOverwriteOperand(OpOperand &read, Value written) {
  if (read.get().getType() != written.getType())
    return false;
  if (auto group = dyn_cast<plan::GroupOp>(read.getOwner())) {
    Block &body = group.getBody().front();
    return llvm::all_of(body.getArgument(read.getOperandNumber()).getUses(), [&](OpOperand &use) {
      auto compute = dyn_cast<graph::GraphOpInterface>(use.getOwner());
      if (!compute || use.getOwner()->getNumResults() == 0)
        return false;
      auto whole = [&](Value value) {
        return cast<RankedTensorType>(value.getType()).getShape() ==
               cast<RankedTensorType>(written.getType()).getShape();
      };
      if (compute.getEmitClass() == graph::EmitClass::Elementwise)
        return whole(use.getOwner()->getResult(0));
      return (compute.getEmitClass() == graph::EmitClass::RowReduction ||
              isa<graph::ReduceOp>(use.getOwner())) &&
             whole(use.getOwner()->getOperand(0));
    });
  }
  auto compute = dyn_cast<graph::GraphOpInterface>(read.getOwner());
  return compute && compute.getEmitClass() == graph::EmitClass::Elementwise;
}

// Returns the value that `value` is a reshape of, through all reshapes.
static Value unshaped(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

using Range = std::pair<int64_t, int64_t>; // bytes of a tensor

// Collects the byte ranges that are written as one piece when the parts of `concat`, which begins
// at byte `at`, are written in place.
static void collectPieces(graph::ConcatOp concat, int64_t at, SmallVectorImpl<Range> &pieces) {
  for (Value part : concat.getInputs()) {
    pieces.push_back({at, at + byteSize(part.getType())});
    if (auto inner = unshaped(part).getDefiningOp<graph::ConcatOp>(); inner && inner.getDim() == 0)
      collectPieces(inner, at, pieces);
    at += byteSize(part.getType());
  }
}

// Returns whether every view of `value`, which begins at byte `at`, contains pieces or is inside
// one.
static bool viewsNest(Value value, int64_t at, ArrayRef<Range> pieces) {
  for (Operation *user : value.getUsers()) {
    int64_t displacement;
    if (!user->getNumResults() || !isView(user, displacement))
      continue;
    Value view = user->getResult(0);
    int64_t low = at + displacement, high = low + byteSize(view.getType());
    for (auto [begin, end] : pieces)
      if (low < end && begin < high && !(low <= begin && end <= high) && !(begin <= low && high <= end))
        return false;
    if (!viewsNest(view, low, pieces))
      return false;
  }
  return true;
}

bool isConcatInPlace(Operation *op) {
  auto concat = dyn_cast<graph::ConcatOp>(op);
  if (!concat || concat.getDim() != 0)
    return false;
  SmallVector<Range> pieces;
  collectPieces(concat, 0, pieces);
  return viewsNest(concat.getResult(), 0, pieces);
}

BufferAssignment::BufferAssignment(func::FuncOp func, std::vector<RootBuffer> &roots,
                                   AssignmentInputs given)
    : func(func), roots(roots), places(given.arguments), known(std::move(given)) {
  collectArgumentViews();
  requestSlices(known.returned, known.escapes);
  assign();
}

// Assigns views of arguments their allocations at once, and records the reads of arguments, so that
// a new state is not written over bytes that are still needed.
void BufferAssignment::collectArgumentViews() {
  int64_t index = 0;
  for (Operation &op : func.getBody().front()) {
    order[&op] = index++;
    int64_t displacement;
    if (op.getNumOperands() && isView(&op, displacement)) {
      if (BufferSlice source = places.lookup(op.getOperand(0)))
        places[op.getResult(0)] = {source.root, source.displacement + displacement};
      continue;
    }
    for (OpOperand &operand : op.getOpOperands())
      if (BufferSlice place = places.lookup(operand.get()))
        reads[place.root].push_back({order[&op], place.displacement,
                                     place.displacement + byteSize(operand.get().getType()), &op,
                                     operand.getOperandNumber()});
  }
}

// Returns the value that `value` is a view of, through all views.
static Value viewed(Value value) {
  int64_t displacement;
  while (Operation *def = value.getDefiningOp()) {
    if (!def->getNumOperands() || !isView(def, displacement))
      break;
    value = def->getOperand(0);
  }
  return value;
}

// Returns the bytes before part `index` of a concat along dim 0.
static int64_t offsetIn(graph::ConcatOp concat, unsigned index) {
  int64_t bytes = 0;
  for (Value part : concat.getInputs().take_front(index))
    bytes += byteSize(part.getType());
  return bytes;
}

// Returns whether the op that defines `value` may write it to `place`: it may not if old contents
// of these bytes are read later, or by the op itself other than element by element.
bool BufferAssignment::mayOverwrite(Value value, BufferSlice place) const {
  int64_t begin = place.displacement, end = begin + byteSize(value.getType());
  if (auto it = requestedIn.find(place.root); it != requestedIn.end())
    for (Value later : it->second) {
      BufferSlice other = requested.lookup(later);
      if (viewed(later) == value || unshaped(later) == unshaped(value) ||
          (later.getDefiningOp() && isConcatInPlace(later.getDefiningOp())))
        continue; // another name of the same value, or a concat of which it is a part
      if (other.displacement < end && begin < other.displacement + byteSize(later.getType()) &&
          !readsEndBefore(value, later))
        return false;
    }
  auto it = reads.find(place.root);
  if (it == reads.end())
    return true;
  Operation *def = value.getDefiningOp();
  int64_t low = place.displacement, high = low + byteSize(value.getType());
  for (const Read &read : it->second) {
    if (read.high <= low || read.low >= high || read.order < order.lookup(def))
      continue;
    if (isa<func::ReturnOp>(read.op))
      continue; // returned unchanged: that result has a request of its own
    if (read.order > order.lookup(def))
      return false;
    if (isa<parallel::AllReduceOp>(def) && read.low == low && read.high == high)
      continue; // in place
    if (isConcatInPlace(def) && read.low == low + offsetIn(cast<graph::ConcatOp>(def), read.operand))
      continue; // a part that stays where it is
    if (read.low != low || read.high != high ||
        !mayOverwriteOperand(def->getOpOperand(read.operand), value))
      return false;
  }
  return true;
}

void BufferAssignment::requestSlice(Value value, BufferSlice place) {
  if (requested.count(value) || places.count(value))
    return;
  // A value that outlives the procedure is kept in the slot, whatever else requests it.
  if (escaping.contains(value) && roots[place.root].space != plan::Space::slot)
    return;
  if (isa<BlockArgument>(value)) {
    // A message may be received into bytes that nothing else reads.
    if (!llvm::is_contained(known.received, value) || reads.count(place.root))
      return;
  } else if (!mayOverwrite(value, place)) {
    return;
  }
  assignRequested(value, place);
}

void BufferAssignment::assignRequested(Value value, BufferSlice place) {
  requested[value] = place;
  requestedIn[place.root].push_back(value);
}

// Returns whether the last read of `value` is before `overwriter` is computed, or by that op itself
// element by element, as an all-reduce does.
bool BufferAssignment::readsEndBefore(Value value, Value overwriter) const {
  Operation *def = overwriter.getDefiningOp();
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    int64_t displacement;
    if (user->getNumResults() && isView(user, displacement)) {
      if (!readsEndBefore(user->getResult(0), overwriter))
        return false;
      continue;
    }
    if (user == def) {
      if (!isa<parallel::AllReduceOp>(def) && !mayOverwriteOperand(use, overwriter))
        return false;
    } else if (order.lookup(user) > order.lookup(def)) {
      return false;
    }
  }
  return true;
}

// Fuses add(accumulator, matmul) at the accumulator's own bytes: the matmul accumulates.
bool BufferAssignment::fuseAccumulation(Operation *op) {
  auto add = dyn_cast<graph::AddOp>(op);
  BufferSlice home = requested.lookup(op->getResult(0));
  if (!add || !home)
    return false;
  for (auto [acc, product] : {std::pair(add.getLhs(), add.getRhs()),
                              std::pair(add.getRhs(), add.getLhs())}) {
    Operation *matmul = product.getDefiningOp();
    if (!matmul || !isa<graph::MatmulOp, graph::GroupedOuterOp>(matmul) || !product.hasOneUse() || product.getType() != add.getType() ||
        !(places.lookup(acc) == home) || acc.getType() != add.getType() || requested.count(product))
      continue;
    // The accumulator must not be read between the matmul and the add.
    bool clear = true;
    for (const Read &read : reads[home.root])
      clear &= read.order < order[matmul] || read.op == op ||
               read.high <= home.displacement ||
               read.low >= home.displacement + byteSize(add.getType());
    if (!clear)
      continue;
    assignRequested(product, home);
    accumulating.insert(matmul);
    elided.insert(op);
    return true;
  }
  return false;
}

// Collects the results that outlive the procedure, and the values that they are views of.
void BufferAssignment::collectEscaping(ArrayRef<bool> escapes) {
  // A neighbour's message arrives before the procedure runs.
  for (Value value : known.received)
    escaping.insert(value);
  for (OpOperand &use : func.getBody().front().getTerminator()->getOpOperands())
    if (escapes[use.getOperandNumber()]) {
      escaping.insert(use.get());
      int64_t displacement;
      Operation *def = use.get().getDefiningOp();
      for (; def && def->getNumOperands() && isView(def, displacement);
           def = def->getOperand(0).getDefiningOp())
        escaping.insert(def->getOperand(0));
    }
}

// Visits users before definitions: when it reaches an op, all requests for its results are known.
void BufferAssignment::requestSlices(ArrayRef<BufferSlice> returned, ArrayRef<bool> escapes) {
  Block &block = func.getBody().front();
  collectEscaping(escapes);
  for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
    if (returned[i])
      requestSlice(value, returned[i]);
  for (Operation &op : llvm::reverse(block)) {
    if (op.getNumResults() == 0 || elided.contains(&op))
      continue;
    Value result = op.getResult(0);
    int64_t displacement;
    if (op.getNumOperands() && isView(&op, displacement)) {
      if (BufferSlice home = requested.lookup(result);
          home && displacement == 0 && isa<graph::ReshapeOp>(op))
        requestSlice(op.getOperand(0), home);
      continue;
    }
    if (isConcatInPlace(&op)) {
      auto concat = cast<graph::ConcatOp>(op);
      BufferSlice home = requested.lookup(result);
      if (!home) {
        home = {static_cast<int>(roots.size()), 0};
        RootBuffer root;
        root.type = cast<RankedTensorType>(result.getType());
        root.space = escaping.contains(result) ? plan::Space::slot : plan::Space::scratch;
        roots.push_back(root);
        assignRequested(result, home);
      }
      int64_t at = home.displacement;
      for (Value part : concat.getInputs()) {
        requestSlice(part, {home.root, at});
        at += byteSize(part.getType());
      }
      continue;
    }
    if (isa<parallel::AllReduceOp>(op)) {
      Value operand = op.getOperand(0);
      if (BufferSlice source = places.lookup(operand)) {
        // An accumulator is reduced in place if the function returns a new value for it.
        bool replaced =
            llvm::any_of(returned, [&](BufferSlice p) { return p && p.root == source.root; });
        if (replaced && !requested.count(result) && operand.hasOneUse() &&
            mayOverwrite(result, source))
          assignRequested(result, source);
      } else if (BufferSlice home = requested.lookup(result); home && operand.hasOneUse()) {
        requestSlice(operand, home);
      }
      continue;
    }
    fuseAccumulation(&op);
    forwardRequest(&op);
    scatterInPlace(&op);
  }
}

// Passes the allocation of a sum on to the first part of it that is a sum as well, which may be
// written there before.
void BufferAssignment::forwardRequest(Operation *op) {
  bool adds = isa<graph::AddOp>(op);
  if (auto group = dyn_cast<plan::GroupOp>(op); group && group->getNumResults() == 1)
    adds = group.getBody().front().getTerminator()->getOperand(0).getDefiningOp<graph::AddOp>();
  BufferSlice home =
      adds && !elided.contains(op) ? requested.lookup(op->getResult(0)) : BufferSlice();
  if (!home)
    return;
  for (OpOperand &part : op->getOpOperands())
    if (part.get().getDefiningOp<graph::AddOp>() && part.get().hasOneUse() && mayOverwriteOperand(part, op->getResult(0)))
      return requestSlice(part.get(), home);
}

// Returns whether an op does nothing but cast one tensor.
static bool isCast(Operation *op) {
  auto group = dyn_cast<plan::GroupOp>(op);
  if (!group)
    return isa<graph::CastOp>(op);
  Block &body = group.getBody().front();
  return body.getNumArguments() == 1 && llvm::hasSingleElement(body.without_terminator()) &&
         isa<graph::CastOp>(body.front());
}

// Returns whether a value is what a reduce-scatter gives, perhaps cast and summed over other ranks
// too, or a concat of such values in place.
static bool isScattered(Value value) {
  Operation *def = unshaped(value).getDefiningOp();
  if (!def || !value.hasOneUse())
    return false;
  auto concat = dyn_cast<graph::ConcatOp>(def);
  return isa<parallel::ReduceScatterOp>(def) || (isCast(def) && isScattered(def->getOperand(0))) ||
         (isa<parallel::AllReduceOp>(def) && isScattered(def->getOperand(0))) ||
         (concat && isConcatInPlace(concat) && llvm::all_of(concat.getInputs(), isScattered));
}

// Lets a reduce-scatter write where the op that reads its result will write its own.
void BufferAssignment::scatterInPlace(Operation *op) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isScattered(operand.get()))
      continue;
    for (Value result : op->getResults())
      if (BufferSlice home = requested.lookup(result);
          home && mayOverwriteOperand(operand, result)) {
        requestSlice(operand.get(), home);
        break;
      }
  }
}

// Returns whether an op that is no view computes the value: no other value names its bytes.
static bool isOwnValue(Value value) {
  int64_t displacement;
  Operation *def = value.getDefiningOp();
  return def && !(def->getNumOperands() && isView(def, displacement));
}

// Records until when the bytes of `value` are read, through all its views; a view may become a copy
// at its own position.
void BufferAssignment::recordLiveRange(Value value, BufferSlice place, int64_t last) {
  for (Operation *user : value.getUsers()) {
    int64_t displacement;
    if (user->getNumResults() && isView(user, displacement))
      recordLiveRange(user->getResult(0), {place.root, place.displacement + displacement}, order.lookup(user));
    else
      last = std::max(last, order.lookup(user));
  }
  occupants[place.root].push_back(
      {value, place.displacement, place.displacement + byteSize(value.getType()), last});
}

void BufferAssignment::assignSlice(Value value, BufferSlice place) {
  places[value] = place;
  recordLiveRange(value, place);
}

// Assigns as give() does, in bytes that held another value until now.
void BufferAssignment::assignAfter(Value value, BufferSlice place) {
  assignSlice(value, place);
  lives[value] = ++roots[place.root].lives;
}

// Returns the allocation of an operand that no op reads after this one and that the op may
// overwrite; null if there is none.
BufferSlice BufferAssignment::reuse(Value result) const {
  Operation *def = result.getDefiningOp();
  int64_t now = order.lookup(def);
  auto mayTake = [&](OpOperand &operand) {
    BufferSlice place = places.lookup(operand.get());
    if (!place || byteSize(operand.get().getType()) != byteSize(result.getType()) ||
        (roots[place.root].space != plan::Space::scratch && !known.consumed.contains(place.root)) ||
        !mayOverwriteOperand(operand, result))
      return false;
    int64_t low = place.displacement, high = low + byteSize(result.getType());
    for (OpOperand &other : def->getOpOperands()) {
      BufferSlice at = places.lookup(other.get());
      if (at.root == place.root && at.displacement < high &&
          low < at.displacement + byteSize(other.get().getType()) &&
          (!(at == place) || !mayOverwriteOperand(other, result)))
        return false;
    }
    auto it = occupants.find(place.root);
    return it != occupants.end() && llvm::all_of(it->second, [&](const Occupant &occupant) {
             return occupant.high <= low || occupant.low >= high ||
                    (occupant.last <= now && occupant.value.getDefiningOp() != def);
           });
  };
  for (OpOperand &operand : def->getOpOperands())
    if (mayTake(operand))
      return places.lookup(operand.get());
  return {};
}

void BufferAssignment::assign() {
  auto fresh = [&](Value value) {
    RootBuffer root;
    root.type = cast<RankedTensorType>(value.getType());
    root.space = escaping.contains(value) ? plan::Space::slot : plan::Space::scratch;
    roots.push_back(root);
    return BufferSlice{static_cast<int>(roots.size()) - 1, 0};
  };
  for (auto &[value, place] : known.arguments)
    recordLiveRange(value, place);
  for (Value value : known.received) {
    BufferSlice home = requested.lookup(value);
    assignSlice(value, home ? home : fresh(value));
  }
  for (Operation &op : func.getBody().front()) {
    int64_t displacement;
    bool view = op.getNumOperands() && op.getNumResults() && isView(&op, displacement);
    for (Value result : op.getResults()) {
      if (places.count(result))
        continue;
      if (BufferSlice home = requested.lookup(result)) {
        assignSlice(result, home);
      } else if (view) {
        BufferSlice source = places.lookup(op.getOperand(0));
        places[result] = {source.root, source.displacement + displacement};
        lives[result] = lives.lookup(op.getOperand(0));
      } else if (isa<parallel::AllReduceOp>(op) && op.getOperand(0).hasOneUse() &&
                 isOwnValue(op.getOperand(0)) && !escaping.contains(result) &&
                 roots[places.lookup(op.getOperand(0)).root].space == plan::Space::scratch) {
        assignAfter(result, places.lookup(op.getOperand(0))); // in place
      } else if (BufferSlice again = escaping.contains(result) ? BufferSlice() : reuse(result)) {
        assignAfter(result, again);
      } else {
        assignSlice(result, fresh(result));
      }
    }
  }
}

} // namespace llmc

// Distributes loops over threads. Code outside of loops over elements is executed by every
// thread of the row (or of the block) alike, except for its stores, which the first one does.
#include "passes/6-emit/simt/Combine.h"
#include "passes/6-emit/simt/Steps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace llmc::emit {

// Counts the iterations of a long sum that are in flight at once, where registers allow.
static constexpr int64_t kLoadsAtOnce = 4;
// Bounds the iterations of a loop that are unrolled completely; a loop with an array gets more,
// so that the array lies in registers.
static constexpr int64_t kMostUnrolled = 4, kMostUnrolledWithArray = 17;

//===-- Distribution --------------------------------------------------------===//

namespace {

// Represents some threads that execute a piece of code together.
struct ThreadSet {
  int64_t size;
  Value id;            // of this thread, below `size`
  Value isActive = {}; // null: they all are
};

// Describes an array of which each thread keeps what it will read again.
struct Share {
  int64_t turns, step, size, length; // of the loops that use it, equal for all
};

class Distributor {
public:
  Distributor(func::FuncOp kernel, const ThreadShape &shape, const VectorBoundsMap &edges)
      : kernel(kernel), shape(shape), edges(edges), b(kernel.getContext()), loc(kernel.getLoc()),
        combiner(kernel) {}

  FailureOr<int64_t> run() {
    Block &entry = kernel.getBody().front();
    b.setInsertionPointToStart(&entry);
    Value index = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
    Value thread = arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
    block = {shape.threads, thread};
    row = {shape.perRow, shape.rows() == 1 ? thread : remainder(thread, shape.perRow)};
    rowOfThread = shape.rows() == 1 ? Value() : quotient(thread, shape.perRow);
    if (failed(spread(entry, block)) || failed(shrinkArrays()))
      return failure();
    return combiner.sharedBytes();
  }

private:
  func::FuncOp kernel;
  const ThreadShape &shape;
  const VectorBoundsMap &edges;
  OpBuilder b;
  Location loc;
  Combiner combiner;
  ThreadSet block, row;
  Value rowOfThread;
  llvm::MapVector<Operation *, Share> arrays;

  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(loc, x, y); }
  Value mul(Value x, int64_t y) { return b.createOrFold<arith::MulIOp>(loc, x, constant(y)); }
  Value quotient(Value x, int64_t y) { return arith::DivUIOp::create(b, loc, x, constant(y)); }
  Value remainder(Value x, int64_t y) { return arith::RemUIOp::create(b, loc, x, constant(y)); }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }

  Value notLess(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, x, y);
  }

  LogicalResult spread(Block &code, ThreadSet team);
  LogicalResult spreadRows(scf::ForOp loop);
  LogicalResult spreadElements(scf::ForOp loop, const ThreadSet &team);
  LogicalResult spreadColumns(scf::ForOp loop);
  void stepByTeams(scf::ForOp loop, const ThreadSet &team);
  std::pair<int64_t, int64_t> wholeTurns(scf::ForOp loop, const ThreadSet &team, int64_t trips);
  FailureOr<SmallVector<Value>> turn(scf::ForOp loop, const ThreadSet &team, Value number,
                                     int64_t like, ValueRange carried, int64_t trips);
  FailureOr<SmallVector<LLVM::GEPOp>> placesInArrays(scf::ForOp loop, const ThreadSet &team);
  void byOne(LLVM::StoreOp store, const ThreadSet &team);
  void onlyIf(Value condition, LLVM::StoreOp store);
  LogicalResult shrinkArrays();
};

} // namespace

LogicalResult Distributor::spread(Block &code, ThreadSet team) {
  SmallVector<Operation *> ops = llvm::map_to_vector(code, [](Operation &op) { return &op; });
  bool isEntry = &code == &kernel.getBody().front(), hasWalked = false, met = false;
  for (Operation *op : ops) {
    LogicalResult done = success();
    // Loops of a block are separated by barriers: what one reads may come from other threads.
    if (isEntry && op->getNumRegions()) {
      b.setInsertionPoint(op);
      if (hasWalked)
        gpu::BarrierOp::create(b, loc);
      hasWalked = true;
    }
    if (isLoopOfKind(op, kRows) && isEntry) {
      done = spreadRows(cast<scf::ForOp>(op));
    } else if (isLoopOfKind(op, kElements)) {
      done = spreadElements(cast<scf::ForOp>(op), team);
    } else if (op->hasAttr(kCombined)) {
      combiner.combine(op, team.size, team.id);
      met = true;
    } else if (auto store = dyn_cast<LLVM::StoreOp>(op)) {
      // Other threads may still be reading what this store overwrites.
      b.setInsertionPoint(op);
      if (!met && isa<scf::ForOp>(code.getParentOp()))
        gpu::BarrierOp::create(b, loc);
      met = true;
      byOne(store, team);
    } else {
      for (Region &region : op->getRegions())
        for (Block &inner : region)
          if (failed(spread(inner, team)))
            return failure();
    }
    if (failed(done))
      return failure();
  }
  return success();
}

void Distributor::byOne(LLVM::StoreOp store, const ThreadSet &team) {
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, team.id, constant(0));
  if (team.isActive)
    isFirst = arith::AndIOp::create(b, loc, isFirst, team.isActive);
  onlyIf(isFirst, store);
}

void Distributor::onlyIf(Value condition, LLVM::StoreOp store) {
  auto branch = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
  store->moveBefore(branch.thenBlock()->getTerminator());
}

// Distributes a few rows at a time, or rows as elements where a row has nothing to share.
LogicalResult Distributor::spreadRows(scf::ForOp loop) {
  if (!containsElementLoop(loop)) {
    stepByTeams(loop, block);
    return success();
  }
  if (!rowOfThread)
    return spread(*loop.getBody(), row);
  b.setInsertionPoint(loop);
  loop.setStep(constant(shape.rows()));
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar(), end = loop.getUpperBound();
  auto mine = arith::AddIOp::create(b, loc, first, rowOfThread);
  Value isActive = less(mine, end);
  // Threads past the end still take part in what the warp does together.
  Value last = arith::SubIOp::create(b, loc, end, constant(1));
  Value number = arith::SelectOp::create(b, loc, isActive, mine, last);
  first.replaceAllUsesExcept(number, mine);
  return spread(*loop.getBody(), {row.size, row.id, isActive});
}

// Rewrites the loop to i = low + id * step; i < high; i += size * step.
void Distributor::stepByTeams(scf::ForOp loop, const ThreadSet &team) {
  b.setInsertionPoint(loop);
  int64_t step = *constantOf(loop.getStep());
  Value low = loop.getLowerBound();
  if (team.isActive)
    loop.setUpperBound(
        arith::SelectOp::create(b, loc, team.isActive, loop.getUpperBound(), low));
  loop.setLowerBound(add(low, mul(team.id, step)));
  loop.setStep(constant(team.size * step));
  // A sum waits for memory, so it unrolls to a few loads in flight. Unrolling assumes that the
  // length is not negative.
  if (loop.getNumResults() == 0)
    return;
  loop.setUpperBound(
      arith::MaxSIOp::create(b, loc, loop.getUpperBound(), loop.getLowerBound()));
  if (countSums(kernel) == 1)
    (void)loopUnrollByFactor(loop, kLoadsAtOnce);
}

//===-- Elements ------------------------------------------------------------===//

FailureOr<SmallVector<LLVM::GEPOp>> Distributor::placesInArrays(scf::ForOp loop,
                                                                const ThreadSet &team) {
  SmallVector<LLVM::GEPOp> places;
  auto result = loop.walk([&](LLVM::GEPOp gep) -> WalkResult {
    auto array = gep.getBase().getDefiningOp<LLVM::AllocaOp>();
    if (!array)
      return WalkResult::advance();
    auto trips = tripCount(loop);
    bool isOwn = gep.getDynamicIndices().size() == 1 &&
                 gep.getDynamicIndices()[0] == loop.getInductionVar() && trips;
    int64_t step = *constantOf(loop.getStep());
    Share share{trips.value_or(0), step, team.size, 0};
    share.length = llvm::divideCeil(share.turns, share.size) * step;
    auto [it, isNew] = arrays.insert({array, share});
    if (!isOwn || it->second.turns != share.turns || it->second.step != step ||
        it->second.size != team.size)
      return gep.emitOpError("reads an array where another thread may have written it");
    places.push_back(gep);
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  return places;
}

// Emits iteration `number` of this thread: the body of `loop` at its index. What does not exist,
// threads past the end or elements outside of the row, leaves the carried values as they are;
// `like` is the number, or another that meets the ends of the row as it does.
FailureOr<SmallVector<Value>> Distributor::turn(scf::ForOp loop, const ThreadSet &team,
                                                Value number, int64_t like, ValueRange carried,
                                                int64_t trips) {
  int64_t step = *constantOf(loop.getStep());
  int64_t lastVector = (like + 1) * team.size - 1;
  Value vector = add(mul(number, team.size), team.id);
  Value i = add(loop.getLowerBound(), mul(vector, step));
  Value slot = mul(number, step);
  Value isMine = team.isActive;
  auto demand = [&](Value also) {
    isMine = isMine ? arith::AndIOp::create(b, loc, isMine, also).getResult() : also;
  };
  auto edge = edges.find(loop);
  bool isEdge = edge != edges.end() &&
                (lastVector >= edge->second.surelyInside || (edge->second.hasHead && like == 0));
  if (isEdge) {
    demand(notLess(edge->second.high, add(i, constant(step))));
    if (edge->second.hasHead)
      demand(notLess(i, edge->second.low));
    isEdge = !edge->second.isWhole;
  } else if (lastVector >= trips) {
    demand(less(vector, constant(trips)));
  }
  auto begin = [&](IRMapping &map) {
    map.map(loop.getInductionVar(), i);
    map.map(loop.getRegionIterArgs(), carried);
  };
  auto end = [&](IRMapping &map) {
    loop.walk([&](LLVM::GEPOp gep) {
      if (gep.getBase().getDefiningOp<LLVM::AllocaOp>())
        map.lookup(gep.getRes()).getDefiningOp<LLVM::GEPOp>().getDynamicIndicesMutable()[0].set(
            slot);
    });
  };
  auto copyBody = [&] {
    IRMapping map;
    begin(map);
    for (Operation &op : loop.getBody()->without_terminator())
      b.clone(op, map);
    end(map);
    return llvm::map_to_vector(loop.getBody()->getTerminator()->getOperands(),
                               [&](Value v) { return map.lookupOrDefault(v); });
  };
  if (!isMine)
    return copyBody();
  auto branch = scf::IfOp::create(b, loc, loop.getResultTypes(), isMine,
                                  /*withElse=*/isEdge || !carried.empty());
  OpBuilder::InsertionGuard guard(b);
  auto fill = [&](Block *block, llvm::function_ref<FailureOr<SmallVector<Value>>()> make) {
    if (carried.empty())
      b.setInsertionPoint(block->getTerminator());
    else
      b.setInsertionPointToStart(block);
    auto values = make();
    if (succeeded(values) && !carried.empty())
      scf::YieldOp::create(b, loc, *values);
    return LogicalResult(values);
  };
  (void)fill(branch.thenBlock(), [&]() -> FailureOr<SmallVector<Value>> { return copyBody(); });
  if (!isEdge) {
    if (!carried.empty())
      (void)fill(branch.elseBlock(),
                 [&]() -> FailureOr<SmallVector<Value>> { return SmallVector<Value>(carried); });
  } else if (failed(fill(branch.elseBlock(), [&]() -> FailureOr<SmallVector<Value>> {
               IRMapping map;
               begin(map);
               auto values = copyMasked(b, loop, map, i, edge->second, team.isActive);
               end(map);
               return values;
             }))) {
    return failure();
  }
  return SmallVector<Value>(branch.getResults());
}

// Returns the iterations [first, last) of `loop` in which no thread meets an end of the row.
std::pair<int64_t, int64_t> Distributor::wholeTurns(scf::ForOp loop, const ThreadSet &team,
                                                    int64_t trips) {
  auto edge = edges.find(loop);
  if (edge == edges.end())
    return {0, trips / team.size};
  int64_t last = std::min(edge->second.surelyInside, trips) / team.size;
  return {std::min<int64_t>(edge->second.hasHead, last), last};
}

// Distributes columns: some threads take neighbouring columns, and others take other rows of
// them. All threads of a block stay together, because they combine what they added up.
LogicalResult Distributor::spreadColumns(scf::ForOp loop) {
  b.setInsertionPoint(loop);
  int64_t step = *constantOf(loop.getStep()), groups = shape.threads / kColumnVectors;
  Value column = remainder(block.id, kColumnVectors), group = quotient(block.id, kColumnVectors);
  loop.setStep(constant(kColumnVectors * step));
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar();
  auto mine = arith::AddIOp::create(b, loc, first, mul(column, step));
  Value isActive = less(mine, loop.getUpperBound());
  // Threads past the end still take part in what the block does together.
  auto number = arith::SelectOp::create(b, loc, isActive, mine, first);
  first.replaceUsesWithIf(number, [&](OpOperand &use) {
    return use.getOwner() != mine && use.getOwner() != number;
  });
  ThreadSet columns{groups, group, isActive};
  for (Operation &op : llvm::make_early_inc_range(*loop.getBody())) {
    bool isShared = isLoopOfKind(&op, kTerms);
    if (isShared) {
      combiner.combineGroups(cast<scf::ForOp>(op), groups, block.id, column, kColumnVectors);
    }
    op.walk([&](LLVM::StoreOp store) {
      b.setInsertionPoint(store);
      if (isShared)
        onlyIf(isActive, store);
      else
        byOne(store, columns);
    });
    if (isShared)
      stepByTeams(cast<scf::ForOp>(op), {groups, group});
  }
  return success();
}

// Distributes elements: neighbouring threads take neighbouring vectors.
LogicalResult Distributor::spreadElements(scf::ForOp loop, const ThreadSet &team) {
  if (hasTerms(loop))
    return spreadColumns(loop);
  auto places = placesInArrays(loop, team);
  if (failed(places))
    return failure();
  auto trips = tripCount(loop);
  if (!trips) {
    stepByTeams(loop, team);
    return success();
  }
  b.setInsertionPoint(loop);
  int64_t turns = llvm::divideCeil(*trips, team.size);
  SmallVector<Value> carried(loop.getInitArgs());
  auto one = [&](int64_t from, int64_t to) -> LogicalResult {
    for (int64_t number = from; number < to; ++number) {
      auto next = turn(loop, team, constant(number), number, carried, *trips);
      if (failed(next))
        return failure();
      carried = *next;
    }
    return success();
  };
  bool isShort = turns <= (places->empty() ? kMostUnrolled : kMostUnrolledWithArray);
  // Iterations in which every thread has a whole vector of the row form a loop.
  auto [first, last] = isShort ? std::pair(turns, turns) : wholeTurns(loop, team, *trips);
  if (failed(one(0, first)))
    return failure();
  if (first < last) {
    auto all = scf::ForOp::create(b, loc, constant(first), constant(last), constant(1), carried);
    OpBuilder::InsertionGuard guard(b);
    if (carried.empty())
      b.setInsertionPoint(all.getBody()->getTerminator());
    else
      b.setInsertionPointToStart(all.getBody());
    auto next =
        turn(loop, team, all.getInductionVar(), first, all.getRegionIterArgs(), *trips);
    if (failed(next))
      return failure();
    if (!carried.empty())
      scf::YieldOp::create(b, loc, *next);
    carried.assign(all.result_begin(), all.result_end());
  }
  if (failed(one(last, turns)))
    return failure();
  loop.replaceAllUsesWith(carried);
  loop.erase();
  return success();
}

//===-- Arrays --------------------------------------------------------------===//

// Returns whether an array is used in rows alone that a thread computes by itself.
static bool isOfRows(LLVM::AllocaOp array, Block &entry) {
  return llvm::all_of(array->getUsers(), [&](Operation *user) {
    Operation *top = entry.findAncestorOpInBlock(*user);
    return isLoopOfKind(top, kRows) && !containsElementLoop(cast<scf::ForOp>(top));
  });
}

// Shrinks arrays to a thread's own elements, which may then live in registers.
LogicalResult Distributor::shrinkArrays() {
  auto result = kernel.walk([&](LLVM::AllocaOp array) -> WalkResult {
    auto it = arrays.find(array);
    if (it == arrays.end() && isOfRows(array, kernel.getBody().front()))
      return WalkResult::advance();
    if (it == arrays.end())
      return array.emitOpError("is used outside of loops over elements");
    for (Operation *user : array->getUsers())
      if (auto gep = dyn_cast<LLVM::GEPOp>(user); !gep || !gep->getParentOp())
        return array.emitOpError("is used as a whole");
    b.setInsertionPoint(array);
    array.getArraySizeMutable().set(constant(it->second.length));
    array.setAlignment(kBufferAlignment);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

FailureOr<int64_t> distribute(func::FuncOp kernel, const ThreadShape &shape,
                              const VectorBoundsMap &edges) {
  return Distributor(kernel, shape, edges).run();
}

} // namespace llmc::emit

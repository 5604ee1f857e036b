// Emits ops that look up rows: gather, scatter_add, take_along.
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/kernel/Math.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace llmc::emit {

static ArrayRef<int64_t> shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}
static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t size : sizes)
    n *= size;
  return n;
}

namespace {

// Holds what lookup ops share: ids[i] - offset selects one of `limit` rows.
struct Lookup {
  Kernel &k;
  LaunchBody body;
  Math m;

  Lookup(Kernel &kernel, LaunchBody body) : k(kernel), body(body), m{kernel.b, kernel.loc} {}

  Value buffer(Value tensor) { return k.buffer(cast<BlockArgument>(tensor).getArgNumber()); }
  // Returns element `i`, its bits as an integer where it is narrow.
  Value element(Value tensor, Value i) {
    Type type = movedType(getElementTypeOrSelf(tensor));
    return k.load(k.address(buffer(tensor), i, type), type);
  }
  Value widened(Value id) {
    Type i64 = k.b.getI64Type();
    return id.getType() == i64 ? id : arith::ExtSIOp::create(k.b, k.loc, i64, id).getResult();
  }
  Value offsetOf(Value offset) {
    if (!offset)
      return k.index(0);
    unsigned number = cast<BlockArgument>(offset).getArgNumber();
    return number < body.reads ? element(offset, k.index(0)) : k.scalar(number - body.reads);
  }
  // Returns the row of ids[i], and whether it is below `limit` and not negative.
  std::pair<Value, Value> row(Value ids, Value i, Value offset, int64_t limit) {
    Value id = k.sub(widened(element(ids, i)), offset);
    Value valid = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ult, id, k.index(limit));
    return {id, valid};
  }
  Value zero(Type element, unsigned width) {
    return arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(typeOf(element, width)));
  }
  // Adds two values; of i1 the result is whether the sum is not zero.
  Value add(Value x, Value y) {
    Type type = elementOf(x.getType());
    if (isa<FloatType>(type))
      return m.add(x, y);
    if (type.isInteger(1))
      return arith::OrIOp::create(k.b, k.loc, x, y);
    return arith::AddIOp::create(k.b, k.loc, x, y);
  }
  void fillZero(Value target, Value low, Value high, Type element) {
    k.vectors(low, high, std::nullopt, [&](Value j, unsigned width) {
      k.store(zero(element, width), k.address(target, j, element));
    });
  }
};

} // namespace

LogicalResult emitGather(Kernel &k, LaunchBody body, Operation *op) {
  auto gather = cast<graph::GatherOp>(op);
  Lookup lookup(k, body);
  Value table = gather.getTable();
  Type element = movedType(getElementTypeOrSelf(table));
  int64_t inner = product(shapeOf(table).drop_front());
  k.rows = product(shapeOf(gather.getIds()));
  Value from = lookup.buffer(table), to = k.buffer(body.reads);
  if (shapeOf(table)[0] == 0) { // no row that could be read
    lookup.fillZero(to, k.mul(k.begin, inner), k.mul(k.end, inner), element);
    return success();
  }
  Value offset = lookup.offsetOf(gather.getOffset());
  k.eachRow(k.begin, k.end, [&](Value i) {
    auto [id, valid] = lookup.row(gather.getIds(), i, offset, shapeOf(table)[0]);
    Value source = k.mul(lookup.m.select(valid, id, k.index(0)), inner), target = k.mul(i, inner);
    k.vectors(k.index(0), k.index(inner), inner, [&, valid = valid](Value j, unsigned width) {
      Value x = k.load(k.address(from, k.add(source, j), element), element, width);
      x = arith::SelectOp::create(k.b, k.loc, valid, x, lookup.zero(element, width));
      k.store(x, k.address(to, k.add(target, j), element));
    });
  });
  return success();
}

namespace {

// Adds rows of the updates in order of the ids; each part owns rows of the result.
struct Scatter {
  Lookup &lookup;
  graph::ScatterAddOp op;
  Kernel &k;
  Type element, updated; // of the result and of the updates
  int64_t inner;
  Value count, updates, to, offset;

  Scatter(Lookup &lookup, graph::ScatterAddOp op)
      : lookup(lookup), op(op), k(lookup.k), element(getElementTypeOrSelf(op.getResult())),
        updated(getElementTypeOrSelf(op.getUpdates())),
        inner(product(shapeOf(op.getResult()).drop_front())) {
    LaunchBody body = lookup.body;
    k.rows = shapeOf(op.getResult())[0];
    k.extents.push_back(product(shapeOf(op.getIds())));
    count = k.scalar(body.block.getNumArguments() - body.reads);
    updates = lookup.buffer(op.getUpdates()), to = k.buffer(body.reads);
    offset = lookup.offsetOf(op.getOffset());
  }

  // Calls `body` for every update of rows [first, first + length), with the first element of the
  // update and the number of the row.
  void each(Value first, Value length, const std::function<void(Value source, Value row)> &body) {
    k.loop(k.index(0), count, 1, [&](Value i) {
      Value id = k.sub(lookup.widened(lookup.element(op.getIds(), i)), offset);
      Value isOurs =
          arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ult, k.sub(id, first), length);
      k.ifThen(isOurs, [&] { body(k.mul(i, inner), id); });
    });
  }

  void inPlace();
  void inBlocks(Value base);
  void block(Value base, Value sums, Value first, Value length, int64_t from, int64_t size);
};

} // namespace

// Adds to what the result already holds.
void Scatter::inPlace() {
  each(k.begin, k.sub(k.end, k.begin), [&](Value source, Value row) {
    Value target = k.mul(row, inner);
    k.vectors(k.index(0), k.index(inner), inner, [&](Value j, unsigned width) {
      Value place = k.address(to, k.add(target, j), element);
      Value x = k.load(k.address(updates, k.add(source, j), updated), updated, width);
      k.store(lookup.add(k.load(place, element, width), x), place);
    });
  });
}

// Bounds the sums of a block, in elements.
static constexpr int64_t kMostSums = 1 << 14;

// Adds to `base`, or to zeros if that is null, where each element of the result is to be rounded
// once: a block of rows at a time is summed on the stack. Threads keep what they sum in
// registers, one row at a time.
void Scatter::inBlocks(Value base) {
  int64_t width = std::min(inner, kMostSums);
  if (width == 0)
    return;
  int64_t height = k.target.threads ? 1 : kMostSums / width;
  Value sums = k.stackArray(computingType(element), height * width);
  k.loop(k.begin, k.end, height, [&](Value first) {
    Value length = height == 1 ? k.index(1) : k.min(k.index(height), k.sub(k.end, first));
    for (int64_t from = 0; from < inner; from += width)
      block(base, sums, first, length, from, std::min(width, inner - from));
  });
}

// Sums elements [from, from + size) of rows [first, first + length).
void Scatter::block(Value base, Value sums, Value first, Value length, int64_t from,
                    int64_t size) {
  Type computing = computingType(element);
  auto eachVector = [&](const std::function<void(Value place, Value at, unsigned width)> &body) {
    auto row = [&](Value r, bool isOnly) {
      Value start = k.add(k.mul(k.add(first, r), inner), k.index(from));
      k.vectors(k.index(0), k.index(size), size, [&](Value j, unsigned width) {
        Value sum = isOnly ? j : k.add(k.mul(r, size), j);
        body(k.address(sums, sum, computing), k.add(start, j), width);
      });
    };
    if (k.target.threads)
      return row(k.index(0), /*isOnly=*/true);
    k.loop(k.index(0), length, 1, [&](Value r) { row(r, /*isOnly=*/false); });
  };
  eachVector([&](Value place, Value at, unsigned width) {
    Value start = base ? k.load(k.address(base, at, element), element, width)
                       : lookup.zero(computing, width);
    k.store(start, place);
  });
  each(first, length, [&](Value source, Value row) {
    Value target = k.mul(k.sub(row, first), size);
    k.vectors(k.index(0), k.index(size), size, [&](Value j, unsigned width) {
      Value place = k.address(sums, k.target.threads ? j : k.add(target, j), computing);
      Value at = k.add(k.add(source, k.index(from)), j);
      Value x = k.load(k.address(updates, at, updated), updated, width);
      k.store(lookup.add(k.load(place, computing, width), x), place);
    });
  });
  eachVector([&](Value place, Value at, unsigned width) {
    k.store(k.load(place, computing, width), k.address(to, at, element), element);
  });
}

LogicalResult emitScatterAdd(Kernel &k, LaunchBody body, Operation *op) {
  Lookup lookup(k, body);
  Type element = getElementTypeOrSelf(op->getResult(0));
  auto scatter = cast<graph::ScatterAddOp>(op);
  if (isNarrow(element)) {
    Scatter(lookup, scatter).inBlocks({});
    return success();
  }
  int64_t inner = product(shapeOf(op->getResult(0)).drop_front());
  lookup.fillZero(k.buffer(body.reads), k.mul(k.begin, inner), k.mul(k.end, inner), element);
  Scatter(lookup, scatter).inPlace();
  return success();
}

// Emits scatter_add on top of what `add` adds: rows are those of the table, whose own elements
// are copied first unless they are there already.
LogicalResult emitScatterInto(Kernel &k, LaunchBody body, Operation *op, Operation *add) {
  auto scatter = cast<graph::ScatterAddOp>(op);
  Value base = add->getOperand(add->getOperand(0) == scatter.getResult() ? 1 : 0);
  if (!isa<BlockArgument>(base) || body.results().size() != 1 || body.results()[0] != add->getResult(0))
    return add->emitOpError("must add a buffer, and be all that its launch writes");
  Lookup lookup(k, body);
  Value from = lookup.buffer(base), to = k.buffer(body.reads);
  Type element = getElementTypeOrSelf(base);
  if (isNarrow(element)) {
    Scatter(lookup, scatter).inBlocks(from);
    return success();
  }
  int64_t inner = product(shapeOf(base).drop_front());
  Value elsewhere = LLVM::ICmpOp::create(k.b, k.loc, LLVM::ICmpPredicate::ne, from, to);
  k.ifThen(elsewhere, [&] {
    k.vectors(k.mul(k.begin, inner), k.mul(k.end, inner), std::nullopt, [&](Value i, unsigned width) {
      k.store(k.load(k.address(from, i, element), element, width), k.address(to, i, element));
    });
  });
  Scatter(lookup, scatter).inPlace();
  return success();
}

LogicalResult emitTakeAlong(Kernel &k, LaunchBody body, Operation *op) {
  auto take = cast<graph::TakeAlongOp>(op);
  Lookup lookup(k, body);
  Value operand = take.getOperand();
  Type element = movedType(getElementTypeOrSelf(operand));
  int64_t inner = shapeOf(operand).back();
  k.rows = product(shapeOf(take.getIds()));
  Value to = k.buffer(body.reads), offset = lookup.offsetOf(take.getOffset());
  lookup.buffer(operand);
  if (inner == 0) {
    lookup.fillZero(to, k.begin, k.end, element);
    return success();
  }
  k.eachRow(k.begin, k.end, [&](Value i) {
    auto [id, valid] = lookup.row(take.getIds(), i, offset, inner);
    Value place = k.add(k.mul(i, inner), lookup.m.select(valid, id, k.index(0)));
    Value x = lookup.element(operand, place);
    k.store(lookup.m.select(valid, x, lookup.zero(element, 1)), k.address(to, i, element));
  });
  return success();
}

} // namespace llmc::emit

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
  Value element(Value tensor, Value i) {
    Type type = getElementTypeOrSelf(tensor);
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
  Type element = getElementTypeOrSelf(table);
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

// Adds rows of the updates: each part owns rows of the table and goes through all ids in order.
static LogicalResult scatterRows(Lookup &lookup, graph::ScatterAddOp scatter) {
  Kernel &k = lookup.k;
  LaunchBody body = lookup.body;
  Value updates = scatter.getUpdates();
  Type element = getElementTypeOrSelf(updates);
  auto shape = shapeOf(scatter.getResult());
  int64_t inner = product(shape.drop_front());
  k.rows = shape[0];
  k.extents.push_back(product(shapeOf(scatter.getIds())));
  Value count = k.scalar(body.block.getNumArguments() - body.reads);
  Value from = lookup.buffer(updates), to = k.buffer(body.reads);
  Value offset = lookup.offsetOf(scatter.getOffset());
  Value length = k.sub(k.end, k.begin);
  k.loop(k.index(0), count, 1, [&](Value i) {
    Value id = k.sub(lookup.widened(lookup.element(scatter.getIds(), i)), offset);
    Value isOurs =
        arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ult, k.sub(id, k.begin), length);
    k.ifThen(isOurs, [&] {
      Value source = k.mul(i, inner), target = k.mul(id, inner);
      k.vectors(k.index(0), k.index(inner), inner, [&](Value j, unsigned width) {
        Value place = k.address(to, k.add(target, j), element);
        Value x = k.load(k.address(from, k.add(source, j), element), element, width);
        k.store(lookup.add(k.load(place, element, width), x), place);
      });
    });
  });
  return success();
}

LogicalResult emitScatterAdd(Kernel &k, LaunchBody body, Operation *op) {
  auto shape = shapeOf(op->getResult(0));
  int64_t inner = product(shape.drop_front());
  Lookup lookup(k, body);
  lookup.fillZero(k.buffer(body.reads), k.mul(k.begin, inner), k.mul(k.end, inner),
                  getElementTypeOrSelf(op->getResult(0)));
  return scatterRows(lookup, cast<graph::ScatterAddOp>(op));
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
  int64_t inner = product(shapeOf(base).drop_front());
  Value elsewhere = LLVM::ICmpOp::create(k.b, k.loc, LLVM::ICmpPredicate::ne, from, to);
  k.ifThen(elsewhere, [&] {
    k.vectors(k.mul(k.begin, inner), k.mul(k.end, inner), std::nullopt, [&](Value i, unsigned width) {
      k.store(k.load(k.address(from, i, element), element, width), k.address(to, i, element));
    });
  });
  return scatterRows(lookup, scatter);
}

LogicalResult emitTakeAlong(Kernel &k, LaunchBody body, Operation *op) {
  auto take = cast<graph::TakeAlongOp>(op);
  Lookup lookup(k, body);
  Value operand = take.getOperand();
  Type element = getElementTypeOrSelf(operand);
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

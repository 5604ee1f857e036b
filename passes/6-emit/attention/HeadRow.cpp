#include "passes/6-emit/attention/HeadRow.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::emit {

SmallVector<std::pair<int64_t, unsigned>> HeadRow::chunks() const {
  SmallVector<std::pair<int64_t, unsigned>> result;
  for (int64_t at = 0; at < dim; at += k.lanes())
    result.push_back({at, std::min<int64_t>(k.lanes(), dim - at)});
  return result;
}

HeadRow::Row HeadRow::load(Value base, Value start) const {
  Row row;
  for (auto [at, width] : chunks())
    row.push_back(k.load(k.address(base, k.add(start, k.index(at)), element), element, width));
  return row;
}

void HeadRow::store(const Row &row, Value base, Value start) const {
  for (auto [chunk, value] : llvm::zip(chunks(), row))
    k.store(value, k.address(base, k.add(start, k.index(chunk.first)), element), element);
}

HeadRow::Row HeadRow::zero() const {
  Row row;
  for (auto [at, width] : chunks())
    row.push_back(
        arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(typeOf(k.b.getF32Type(), width))));
  return row;
}

static Value spread(Kernel &k, Value scalar, Type like) {
  return scalar.getType() == like
             ? scalar
             : vector::BroadcastOp::create(k.b, k.loc, like, scalar).getResult();
}

HeadRow::Row HeadRow::scale(const Row &row, Value factor) const {
  Row result;
  for (Value value : row)
    result.push_back(math().mul(value, spread(k, factor, value.getType())));
  return result;
}

HeadRow::Row HeadRow::axpy(Value factor, const Row &row, ValueRange sum) const {
  Row result;
  for (auto [value, old] : llvm::zip(row, sum))
    result.push_back(math().fma(spread(k, factor, value.getType()), value, old));
  return result;
}

Value HeadRow::dot(const Row &row, Value base, Value start) const {
  return dot(row, load(base, start));
}

// Adds two chains of full vectors, then their lanes as a tree, then the rest.
Value HeadRow::dot(const Row &x, const Row &y) const {
  Math m = math();
  auto lanes = [&](Value vector) -> Value {
    if (!isa<VectorType>(vector.getType()))
      return vector;
    return vector::ReductionOp::create(k.b, k.loc, vector::CombiningKind::ADD, vector,
                                       arith::FastMathFlags::reassoc);
  };
  Value chains[2], rest;
  for (size_t i = 0; i < x.size(); ++i) {
    if (widthOf(x[i].getType()) != k.lanes()) {
      rest = lanes(m.mul(x[i], y[i]));
      continue;
    }
    Value &chain = chains[i % 2];
    chain = chain ? m.fma(x[i], y[i], chain) : m.mul(x[i], y[i]);
  }
  if (!chains[0])
    return rest;
  Value sum = lanes(chains[1] ? m.add(chains[0], chains[1]) : chains[0]);
  return rest ? m.add(sum, rest) : sum;
}

} // namespace llmc::emit

// Splits a sum of everything over many blocks: each leaves the sums of some parts in memory, and
// the one that finishes last adds them up. Parts and their order follow from the size alone.
#include "passes/6-emit/simt/Simt.h"
#include "passes/6-emit/simt/Steps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace llmc::emit {

namespace {

// Names the scope of atomics and fences: all blocks of a card see what one wrote before it
// arrived.
constexpr StringLiteral kDevice = "device";

class GridReduction {
public:
  GridReduction(func::FuncOp kernel, scf::ForOp rows)
      : kernel(kernel), rows(rows), b(kernel.getContext()), loc(kernel.getLoc()) {}

  // Finds what split() needs; returns false if the kernel is no such sum.
  bool match();
  // Splits the sum and returns the bytes of scratch.
  int64_t split(int64_t parts);

private:
  func::FuncOp kernel;
  scf::ForOp rows;
  OpBuilder b;
  Location loc;
  scf::ForOp vectors, rest;        // the loops: vectors, then single elements
  SmallVector<Operation *> totals; // combined
  int64_t parts = 0;
  Value scratch; // the number of blocks that have arrived, then the parts

  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  Value thread() {
    Value id = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
    return arith::IndexCastOp::create(b, loc, b.getI64Type(), id);
  }
  Value equal(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y);
  }
  void addScratch();
  LLVM::GlobalOp shared(StringRef suffix, Type type, int64_t alignment);
  Value place(Value base, Value index, Type type) {
    return LLVM::GEPOp::create(b, loc, base.getType(), type, base, ArrayRef<LLVM::GEPArg>{index});
  }
  Value partAt(size_t sum, Value part) {
    Value first = constant(kScratchCount / 8 + sum * parts);
    return place(scratch, arith::AddIOp::create(b, loc, part, first), b.getI64Type());
  }
  Value nothing(Type type, bool isMax);
  void leave(Value total, Value at);
  Value fetch(Type type, Value at);
  Value isLast();
};

} // namespace

// Returns whether `walk` is a loop over elements whose length only the launch knows.
static bool isOpen(scf::ForOp walk) { return isLoopOfKind(walk, kElements) && !tripCount(walk); }

bool GridReduction::match() {
  if (!rows.getInductionVar().use_empty() || rows.getNumResults())
    return false;
  for (Operation &op : rows.getBody()->without_terminator()) {
    if (auto walk = dyn_cast<scf::ForOp>(op); walk && isOpen(walk) && totals.empty()) {
      if (rest)
        return false;
      (vectors ? rest : vectors) = walk;
    } else if (op.hasAttr(kCombined)) {
      totals.push_back(&op);
    } else if (op.getNumRegions() || (totals.empty() && isa<LLVM::StoreOp>(op))) {
      return false;
    }
  }
  return rest && !totals.empty() && constantOf(vectors.getLowerBound()) == 0 &&
         constantOf(rest.getStep()) == 1 && rest.getLowerBound() == vectors.getUpperBound();
}

// Inserts the scratch parameter behind the buffers.
void GridReduction::addScratch() {
  Block &entry = kernel.getBody().front();
  unsigned at = 0;
  while (at < entry.getNumArguments() && isa<LLVM::LLVMPointerType>(entry.getArgument(at).getType()))
    ++at;
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), kGlobalMemory);
  auto alignment =
      b.getNamedAttr(LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(kBufferAlignment));
  (void)kernel.insertArgument(at, pointer, b.getDictionaryAttr(alignment), loc);
  scratch = entry.getArgument(at);
}

// Declares a variable in shared memory, which is not initialised.
LLVM::GlobalOp GridReduction::shared(StringRef suffix, Type type, int64_t alignment) {
  auto module = kernel->getParentOfType<ModuleOp>();
  OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
  return LLVM::GlobalOp::create(top, loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
                                (kernel.getName() + suffix).str(), Attribute(), alignment,
                                kSharedMemory);
}

// Returns the constant that changes no sum, or no maximum.
Value GridReduction::nothing(Type type, bool isMax) {
  if (!isMax || type.isInteger(1))
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  if (auto number = dyn_cast<FloatType>(type))
    return arith::ConstantOp::create(
        b, loc,
        b.getFloatAttr(type, APFloat::getInf(number.getFloatSemantics(), /*Negative=*/true)));
  return arith::ConstantOp::create(
      b, loc, b.getIntegerAttr(type, APInt::getSignedMinValue(type.getIntOrFloatBitWidth())));
}

// Stores any number as the low bits of 64.
void GridReduction::leave(Value total, Value at) {
  unsigned bits = total.getType().getIntOrFloatBitWidth();
  Value x = total;
  if (isa<FloatType>(x.getType()))
    x = arith::BitcastOp::create(b, loc, b.getIntegerType(bits), x);
  if (bits < 64)
    x = arith::ExtUIOp::create(b, loc, b.getI64Type(), x);
  LLVM::StoreOp::create(b, loc, x, at, /*alignment=*/8, /*isVolatile=*/false,
                        /*isNonTemporal=*/false, /*isInvariantGroup=*/false,
                        LLVM::AtomicOrdering::monotonic, kDevice);
}

Value GridReduction::fetch(Type type, Value at) {
  unsigned bits = type.getIntOrFloatBitWidth();
  Value x = LLVM::LoadOp::create(b, loc, b.getI64Type(), at, /*alignment=*/8, /*isVolatile=*/false,
                                 /*isNonTemporal=*/false, /*isInvariant=*/false,
                                 /*isInvariantGroup=*/false, LLVM::AtomicOrdering::monotonic,
                                 kDevice);
  if (bits < 64)
    x = arith::TruncIOp::create(b, loc, b.getIntegerType(bits), x);
  return isa<FloatType>(type) ? arith::BitcastOp::create(b, loc, type, x).getResult() : x;
}

// Emits whether all other blocks have left their parts: an atomic count in scratch, which the
// last block resets to 0.
Value GridReduction::isLast() {
  Type i32 = b.getI32Type();
  auto last = shared("_last", i32, 4);
  Value zero = constant(0);
  auto lastPlace = [&] {
    Type pointer = LLVM::LLVMPointerType::get(b.getContext(), kSharedMemory);
    Value base = LLVM::AddressOfOp::create(b, loc, pointer, last.getSymName());
    return place(base, zero, i32);
  };
  auto branch = scf::IfOp::create(b, loc, equal(thread(), zero), /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    Value count = place(scratch, zero, i32);
    Value one = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
    Value none = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    // Fences are separate: the code generator makes a relaxed instruction of any atomic one.
    LLVM::FenceOp::create(b, loc, LLVM::AtomicOrdering::acq_rel, kDevice);
    Value before = LLVM::AtomicRMWOp::create(b, loc, LLVM::AtomicBinOp::add, count, one,
                                             LLVM::AtomicOrdering::monotonic, kDevice);
    LLVM::FenceOp::create(b, loc, LLVM::AtomicOrdering::acq_rel, kDevice);
    Value blocks = gpu::GridDimOp::create(b, loc, gpu::Dimension::x);
    Value most = arith::SubIOp::create(
        b, loc, arith::IndexCastOp::create(b, loc, i32, blocks), one);
    Value isLast = equal(before, most);
    LLVM::StoreOp::create(b, loc, arith::ExtUIOp::create(b, loc, i32, isLast),
                          lastPlace(), 4);
    auto reset = scf::IfOp::create(b, loc, isLast, /*withElseRegion=*/false);
    b.setInsertionPoint(reset.thenBlock()->getTerminator());
    LLVM::StoreOp::create(b, loc, none, count, 4, /*isVolatile=*/false, /*isNonTemporal=*/false,
                          /*isInvariantGroup=*/false, LLVM::AtomicOrdering::monotonic, kDevice);
  }
  gpu::BarrierOp::create(b, loc);
  Value flag = LLVM::LoadOp::create(b, loc, i32, lastPlace(), 4);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, flag,
                               arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0)));
}

int64_t GridReduction::split(int64_t count) {
  parts = count;
  addScratch();
  Type i64 = b.getI64Type();
  // All rows are the same one, so a single execution replaces the loop.
  b.setInsertionPoint(rows);
  Value isAny = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, rows.getLowerBound(),
                                      rows.getUpperBound());
  auto once = scf::IfOp::create(b, loc, isAny, /*withElseRegion=*/false);
  Block *body = once.thenBlock();
  rows.getBody()->getTerminator()->erase();
  body->getOperations().splice(body->getTerminator()->getIterator(), rows.getBody()->getOperations());
  rows.erase();

  // A part is a number of iterations of all threads, so that each begins where it is aligned.
  b.setInsertionPoint(vectors);
  Value full = vectors.getUpperBound(), size = rest.getUpperBound();
  int64_t turn = parts * *constantOf(vectors.getStep());
  Value turns = arith::DivUIOp::create(
      b, loc, arith::AddIOp::create(b, loc, full, constant(parts * turn - 1)),
      constant(parts * turn));
  Value length = arith::MulIOp::create(b, loc, turns, constant(turn));
  auto index = [&](Value value) { return arith::IndexCastOp::create(b, loc, i64, value); };
  Value block = index(gpu::BlockIdOp::create(b, loc, gpu::Dimension::x));
  Value blocks = index(gpu::GridDimOp::create(b, loc, gpu::Dimension::x));
  // Counts the parts that exist: the last one ends with what is no whole vector.
  Value least = arith::MaxSIOp::create(b, loc, length, constant(1));
  Value past = arith::SubIOp::create(b, loc, least, constant(1));
  Value used =
      arith::DivUIOp::create(b, loc, arith::AddIOp::create(b, loc, full, past), least);
  used = arith::MaxSIOp::create(b, loc, used, constant(1));
  auto each = scf::ForOp::create(b, loc, block, used, blocks);
  Value part = each.getInductionVar();

  // Collects what the sums of a part need; all else belongs to the sums of everything.
  SmallVector<Operation *> inner;
  for (Operation *op = totals.back(); op != vectors->getPrevNode(); op = op->getPrevNode())
    if (llvm::is_contained(totals, op) || llvm::any_of(op->getUsers(), [&](Operation *user) {
          return llvm::is_contained(inner, body->findAncestorOpInBlock(*user));
        }))
      inner.push_back(op);
  std::reverse(inner.begin(), inner.end());
  for (Operation *op : inner)
    op->moveBefore(each.getBody()->getTerminator());
  b.setInsertionPointToStart(each.getBody());
  Value low = arith::MulIOp::create(b, loc, part, length);
  Value high = arith::MinSIOp::create(b, loc, arith::AddIOp::create(b, loc, low, length), full);
  Value isEnd = equal(part, arith::SubIOp::create(b, loc, used, constant(1)));
  vectors.setLowerBound(low);
  vectors.setUpperBound(high);
  rest.setLowerBound(full);
  rest.setUpperBound(arith::SelectOp::create(b, loc, isEnd, size, full));
  b.setInsertionPoint(each.getBody()->getTerminator());
  for (auto [sum, total] : llvm::enumerate(totals))
    leave(total->getResult(0), partAt(sum, part));

  b.setInsertionPointAfter(each);
  auto last = scf::IfOp::create(b, loc, isLast(), /*withElseRegion=*/false);
  Block *end = last.thenBlock();
  end->getOperations().splice(end->getTerminator()->getIterator(), body->getOperations(),
                              std::next(last->getIterator()), body->getTerminator()->getIterator());
  b.setInsertionPointToStart(end);
  for (auto [sum, total] : llvm::enumerate(totals)) {
    Type type = total->getResult(0).getType();
    Value part = fetch(type, partAt(sum, thread()));
    Value isUsed = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, thread(), used);
    bool isMax = cast<StringAttr>(total->getAttr(kCombined)).getValue() == kMax;
    Value whole = arith::SelectOp::create(b, loc, isUsed, part, nothing(type, isMax));
    whole.getDefiningOp()->setAttr(kCombined, total->getAttr(kCombined));
    total->getResult(0).replaceUsesWithIf(
        whole, [&](OpOperand &use) { return end->findAncestorOpInBlock(*use.getOwner()); });
  }
  return kScratchCount + static_cast<int64_t>(totals.size()) * parts * 8;
}

int64_t splitSum(func::FuncOp kernel, int64_t threads) {
  scf::ForOp rows;
  for (scf::ForOp loop : kernel.getBody().front().getOps<scf::ForOp>()) {
    if (rows || !isLoopOfKind(loop, kRows))
      return 0;
    rows = loop;
  }
  if (!rows)
    return 0;
  GridReduction parts(kernel, rows);
  return parts.match() ? parts.split(threads) : 0;
}

} // namespace llmc::emit

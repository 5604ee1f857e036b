#include "passes/6-emit/kernel/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/6-emit/kernel/Narrow.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace llmc::emit {

Type typeOf(Type element, unsigned width) {
  return width == 1 ? element : VectorType::get({width}, element);
}
unsigned widthOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}
Type elementOf(Type type) { return getElementTypeOrSelf(type); }
int64_t storageBytes(Type element) { return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8); }

bool isNarrow(Type element) { return element.isBF16() || element.isF16(); }
bool isKernelElement(Type element) {
  return isa<IntegerType>(element) || element.isF32() || isNarrow(element);
}
Type computingType(Type element) {
  return isNarrow(element) ? Float32Type::get(element.getContext()) : element;
}
Type movedType(Type element) {
  return isNarrow(element) ? IntegerType::get(element.getContext(), 16) : element;
}

static Type storageType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : movedType(element);
}

std::string kernelsModule(const KernelTarget &target) {
  if (&target == kCpuTargets.front())
    return kKernelsModule.str();
  return (kKernelsModule + "_" + target.name).str();
}

Kernel::Kernel(ModuleOp module, StringRef name, Location loc, const KernelTarget &target)
    : target(target), b(module.getContext()), loc(loc), module(module) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64 = b.getI64Type();
  b.setInsertionPointToEnd(module.getBody());
  func = func::FuncOp::create(b, loc, name, b.getFunctionType({pointer, pointer, i64, i64}, {}));
  Block *entry = func.addEntryBlock();
  begin = entry->getArgument(2);
  end = entry->getArgument(3);
  b.setInsertionPointToStart(entry);
  func::ReturnOp::create(b, loc);
  b.setInsertionPointToStart(entry);
}

// Builds an op in the prologue of the function, where it dominates every later use.
Value Kernel::prologue(const std::function<Value()> &make) {
  OpBuilder::InsertionGuard guard(b);
  if (prologueEnd)
    b.setInsertionPointAfter(prologueEnd);
  else
    b.setInsertionPointToStart(&func.getBody().front());
  Value value = make();
  prologueEnd = value.getDefiningOp();
  return value;
}

static Value loadSlot(OpBuilder &b, Location loc, Value table, unsigned i, Type type) {
  Value slot = LLVM::GEPOp::create(b, loc, table.getType(), type, table,
                                   ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
  return LLVM::LoadOp::create(b, loc, type, slot, /*alignment=*/8);
}

Value Kernel::buffer(unsigned i) {
  Value &value = buffers[i];
  if (!value)
    value = prologue([&] {
      Value table = func.getArgument(0);
      return loadSlot(b, loc, table, i, table.getType());
    });
  return value;
}

Value Kernel::scalar(unsigned i) {
  Value &value = scalars[i];
  if (!value)
    value = prologue([&] { return loadSlot(b, loc, func.getArgument(1), i, b.getI64Type()); });
  return value;
}

// Names the global by its content, so that kernels with equal data remain equal.
Value Kernel::constantData(DenseElementsAttr data) {
  auto type = data.getType();
  Type element = storageType(type.getElementType());
  auto stored = data;
  if (type.getElementType().isInteger(1)) {
    SmallVector<int8_t> bytes;
    for (bool bit : data.getValues<bool>())
      bytes.push_back(bit);
    stored = DenseElementsAttr::get(RankedTensorType::get(type.getShape(), element),
                                    ArrayRef<int8_t>(bytes));
  } else if (isNarrow(type.getElementType())) {
    stored = data.bitcast(element);
  }
  auto flat = stored.reshape(RankedTensorType::get({type.getNumElements()}, element));
  std::string text;
  llvm::raw_string_ostream(text) << flat.getType();
  ArrayRef<char> bytes = flat.getRawData();
  text.append(bytes.begin(), bytes.end());
  std::string name = "data_" + llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true);
  auto array = LLVM::LLVMArrayType::get(element, type.getNumElements());
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, loc, array, /*isConstant=*/true, LLVM::Linkage::Internal, name, flat,
                           /*alignment=*/64);
  }
  return prologue([&]() -> Value {
    return LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), name);
  });
}

// Offsets arrays of kWalked bytes or more against 4 KiB aliasing: a processor takes a load for
// one of what it has just stored where the last 12 bits of their addresses agree. Rows of 4 KiB,
// and arrays beside them, step through those bits together, so these arrays lie at distances
// from page starts, and from each other, that a store does not catch up with.
Value Kernel::stackArray(Type element, int64_t count) {
  constexpr int64_t kPage = 4096, kWalked = 1024, kFirst = 1024, kNext = 640;
  int64_t size = storageBytes(element), offset = 0;
  if (count * size >= kWalked && !target.threads)
    offset = (kFirst + kNext * walkedArrays++) % kPage;
  return prologue([&]() -> Value {
    auto pointer = LLVM::LLVMPointerType::get(b.getContext());
    Value n = LLVM::ConstantOp::create(b, loc, b.getI64Type(),
                                       b.getI64IntegerAttr(offset / size + count));
    Value start = LLVM::AllocaOp::create(b, loc, pointer, element, n, offset ? kPage : 64);
    if (!offset)
      return start;
    return LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), start,
                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
  });
}

//===-- Integers ------------------------------------------------------------===//

Value Kernel::index(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}
Value Kernel::add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(loc, x, y); }
Value Kernel::sub(Value x, Value y) { return b.createOrFold<arith::SubIOp>(loc, x, y); }
Value Kernel::mul(Value x, int64_t factor) {
  return factor == 1 ? x : b.createOrFold<arith::MulIOp>(loc, x, index(factor));
}
Value Kernel::mul(Value x, Value y) { return b.createOrFold<arith::MulIOp>(loc, x, y); }
Value Kernel::divFloor(Value x, Value y) { return b.createOrFold<arith::DivUIOp>(loc, x, y); }
Value Kernel::divFloor(Value x, int64_t divisor) {
  return divisor == 1 ? x : b.createOrFold<arith::DivUIOp>(loc, x, index(divisor));
}
Value Kernel::modulo(Value x, int64_t divisor) {
  return divisor == 1 ? index(0) : b.createOrFold<arith::RemUIOp>(loc, x, index(divisor));
}
Value Kernel::min(Value x, Value y) { return b.createOrFold<arith::MinSIOp>(loc, x, y); }
Value Kernel::max(Value x, Value y) { return b.createOrFold<arith::MaxSIOp>(loc, x, y); }

//===-- Memory --------------------------------------------------------------===//

Value Kernel::address(Value base, Value element, Type type) {
  return LLVM::GEPOp::create(b, loc, base.getType(), storageType(type), base,
                             ArrayRef<LLVM::GEPArg>{element});
}

Value Kernel::loaded(Value stored, Type element) {
  if (isNarrow(element))
    return widened(b, loc, stored, element);
  if (!element.isInteger(1))
    return stored;
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(stored.getType()));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, stored, zero);
}

Value Kernel::stored(Value value, Type element) {
  if (element && isNarrow(element))
    return narrowed(b, loc, value, element);
  if (!elementOf(value.getType()).isInteger(1))
    return value;
  return arith::ExtUIOp::create(b, loc, typeOf(b.getI8Type(), widthOf(value.getType())), value);
}

static int64_t storedBytes(Value stored) { return storageBytes(elementOf(stored.getType())); }

Value Kernel::load(Value pointer, Type element, unsigned width) {
  Type type = typeOf(storageType(element), width);
  return loaded(LLVM::LoadOp::create(b, loc, type, pointer, storageBytes(element)), element);
}

void Kernel::store(Value value, Value pointer, Type element) {
  Value bits = stored(value, element);
  LLVM::StoreOp::create(b, loc, bits, pointer, storedBytes(bits));
}

Value Kernel::loadMasked(Value pointer, Type element, Value mask) {
  Type type = typeOf(storageType(element), widthOf(mask.getType()));
  Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  return loaded(LLVM::MaskedLoadOp::create(b, loc, type, pointer, mask, zeros,
                                           storageBytes(element)),
                element);
}

void Kernel::storeMasked(Value value, Value pointer, Value mask, Type element) {
  Value bits = stored(value, element);
  LLVM::MaskedStoreOp::create(b, loc, bits, pointer, mask, storedBytes(bits));
}

void Kernel::storeNonTemporal(Value value, Value pointer, Type element) {
  if (widthOf(value.getType()) < lanes())
    return store(value, pointer, element);
  Value bits = stored(value, element);
  LLVM::StoreOp::create(b, loc, bits, pointer, lanes() * storedBytes(bits), /*isVolatile=*/false,
                        /*isNonTemporal=*/true);
}

//===-- Control -------------------------------------------------------------===//

SmallVector<Value> Kernel::loop(Value low, Value high, int64_t step, ValueRange init,
                                const LoopBody &body, LoopKind walk) {
  auto loop = scf::ForOp::create(b, loc, low, high, index(step), init,
                                 [&](OpBuilder &, Location, Value i, ValueRange carried) {});
  if (walk != LoopKind::InOrder)
    loop->setAttr(kLoopKind, b.getStringAttr(walk == LoopKind::Rows       ? kRows
                                         : walk == LoopKind::Elements ? kElements
                                                                  : kTerms));
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  b.setInsertionPointToEnd(block);
  SmallVector<Value> next;
  if (init.empty() && !block->empty())
    b.setInsertionPoint(block->getTerminator());
  body(loop.getInductionVar(), loop.getRegionIterArgs(), next);
  if (block->empty() || !block->back().hasTrait<OpTrait::IsTerminator>())
    scf::YieldOp::create(b, loc, next);
  return SmallVector<Value>(loop.getResults());
}

void Kernel::loop(Value low, Value high, int64_t step, const std::function<void(Value)> &body,
                  LoopKind walk) {
  loop(low, high, step, {}, [&](Value i, ValueRange, SmallVectorImpl<Value> &) { body(i); }, walk);
}

void Kernel::ifThen(Value condition, const std::function<void()> &body) {
  auto branch = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
}

void Kernel::ifElse(Value condition, const std::function<void()> &then,
                    const std::function<void()> &otherwise) {
  auto branch = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  then();
  b.setInsertionPoint(branch.elseBlock()->getTerminator());
  otherwise();
}

void Kernel::fence() {
  LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr("llvm.x86.sse.sfence"), ValueRange{});
}

void Kernel::vectors(Value low, Value high, std::optional<int64_t> size,
                     const std::function<void(Value, unsigned)> &body, unsigned width) {
  unsigned lanes = widthAlong(size, width ? width : this->lanes());
  auto each = [&](Value from, Value to, unsigned lanes) {
    loop(from, to, lanes, [&](Value i) { body(i, lanes); }, LoopKind::Elements);
  };
  if (size && target.threads)
    return each(low, add(low, index(*size)), lanes);
  if (size) {
    int64_t full = *size / lanes * lanes, rest = *size - full;
    if (full == lanes)
      body(low, lanes);
    else if (full)
      each(low, add(low, index(full)), lanes);
    Value after = add(low, index(full));
    if (rest && lanes > this->lanes())
      vectors(after, high, rest, body);
    else if (rest)
      body(after, rest);
    return;
  }
  Value middle = add(low, sub(sub(high, low), modulo(sub(high, low), lanes)));
  each(low, middle, lanes);
  if (lanes > this->lanes())
    vectors(middle, high, std::nullopt, body);
  else
    each(middle, high, 1);
}

unsigned Kernel::widthAlong(std::optional<int64_t> size, unsigned width) const {
  if (size && target.threads && *size < width)
    width = widthDividing(size, width);
  return width;
}

unsigned Kernel::widthDividing(std::optional<int64_t> size, unsigned width) const {
  if (size && target.threads)
    while (*size % width)
      width /= 2;
  return width;
}

void Kernel::combined(Value total, bool isMax) {
  total.getDefiningOp()->setAttr(kCombined, b.getStringAttr(isMax ? kMax : kSum));
}

void Kernel::combined(ValueRange totals, ArrayRef<bool> areMax) {
  SmallVector<Attribute> kinds;
  for (bool isMax : areMax)
    kinds.push_back(b.getStringAttr(isMax ? kMax : kSum));
  totals.front().getDefiningOp()->setAttr(kCombined, b.getArrayAttr(kinds));
}

} // namespace llmc::emit

// Cuts rows into strips of columns, a block each, where column sums pass row by row and a row is
// longer than the threads of one block can keep sums for.
#include "passes/6-emit/simt/Steps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::emit {

namespace {

constexpr int64_t kThreads = 256;

class Strips {
public:
  Strips(func::FuncOp kernel, VectorBoundsMap &edges)
      : kernel(kernel), edges(edges), b(kernel.getContext()), loc(kernel.getLoc()) {}

  // Finds what cut() needs; returns false if the kernel is no such sum.
  bool match();
  int64_t cut();
  int64_t sharedBytes() const { return shared; }

private:
  func::FuncOp kernel;
  VectorBoundsMap &edges;
  OpBuilder b;
  Location loc;
  scf::ForOp rows;
  SmallVector<scf::ForOp> walks;
  llvm::SmallSetVector<Operation *, 4> arrays;
  int64_t size = 0, width = 0, shared = 0;

  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  bool add(scf::ForOp walk);
  void share(LLVM::AllocaOp array, int64_t columns);
};

} // namespace

bool Strips::add(scf::ForOp walk) {
  auto high = constantOf(walk.getUpperBound()), step = constantOf(walk.getStep());
  if (constantOf(walk.getLowerBound()) != 0 || !high || walk.getNumResults() || addsColumns(walk) ||
      (size && (*high != size || *step != width)))
    return false;
  size = *high, width = *step;
  walks.push_back(walk);
  bool isGood = true;
  walk.walk([&](LLVM::GEPOp gep) {
    auto array = gep.getBase().getDefiningOp<LLVM::AllocaOp>();
    if (!array)
      return;
    arrays.insert(array);
    isGood = isGood && gep.getDynamicIndices().size() == 1 &&
             gep.getDynamicIndices()[0] == walk.getInductionVar() &&
             walk->isProperAncestor(gep) && llvm::all_of(gep->getUsers(), [&](Operation *user) {
               auto load = dyn_cast<LLVM::LoadOp>(user);
               auto store = dyn_cast<LLVM::StoreOp>(user);
               Type type = load ? load.getType() : store ? store.getValue().getType() : Type();
               auto vector = dyn_cast_or_null<VectorType>(type);
               return vector && vector.getNumElements() == width;
             });
  });
  return isGood;
}

bool Strips::match() {
  for (scf::ForOp loop : kernel.getBody().front().getOps<scf::ForOp>()) {
    if (rows || !isLoopOfKind(loop, kRows))
      return false;
    rows = loop;
  }
  if (!rows)
    return false;
  bool isGood = true, isDeep = false;
  rows.getBody()->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isLoopOfKind(op, kElements)) {
      isDeep |= op->getBlock() != rows.getBody();
      isGood = isGood && add(cast<scf::ForOp>(op));
      return WalkResult::skip();
    }
    isGood =
        isGood && !op->hasAttr(kCombined) && !op->hasAttr(kLoopKind) && !isa<LLVM::StoreOp>(op);
    return WalkResult::advance();
  });
  constexpr size_t kMostShared = 4; // strips of 8 KiB
  if (size % std::max<int64_t>(width, 1) && arrays.size() > kMostShared)
    return false;
  return isGood && isDeep && !arrays.empty() && width > 1 && size / width > kThreads;
}

// Moves the sums of `array` to shared memory, where every thread of the block finds them,
// because the threads that a column belongs to change from row to row. The sums of the first
// elements of adjacent vectors come first, then those of the second ones, and so on.
void Strips::share(LLVM::AllocaOp array, int64_t columns) {
  int64_t plane = columns / width + 2; // vectors may begin before, and end after
  Type element = array.getElemType(), pointer = LLVM::LLVMPointerType::get(b.getContext(), kSharedMemory);
  OpBuilder top = OpBuilder::atBlockBegin(kernel->getParentOfType<ModuleOp>().getBody());
  std::string name = (kernel.getName() + "_strip" + std::to_string(shared)).str();
  auto global = LLVM::GlobalOp::create(top, loc, LLVM::LLVMArrayType::get(element, plane * width),
                                       /*isConstant=*/false, LLVM::Linkage::Internal, name,
                                       Attribute(), /*alignment=*/8, kSharedMemory);
  shared += llvm::alignTo(plane * width * llvm::divideCeil(element.getIntOrFloatBitWidth(), 8), 8);
  for (Operation *user : llvm::make_early_inc_range(array->getUsers())) {
    auto gep = cast<LLVM::GEPOp>(user);
    auto walk = gep->getParentOfType<scf::ForOp>();
    while (!isLoopOfKind(walk, kElements))
      walk = walk->getParentOfType<scf::ForOp>();
    b.setInsertionPoint(gep);
    Value first = arith::SubIOp::create(b, loc, walk.getInductionVar(), edges.lookup(walk).low);
    Value base = LLVM::AddressOfOp::create(b, loc, pointer, global.getSymName());
    SmallVector<Value> places;
    for (int64_t lane = 0; lane < width; ++lane) {
      Value at = add(first, constant(width + lane)), n = constant(width);
      Value index = add(
          arith::MulIOp::create(b, loc, arith::RemUIOp::create(b, loc, at, n), constant(plane)),
          arith::DivUIOp::create(b, loc, at, n));
      places.push_back(LLVM::GEPOp::create(b, loc, pointer, element, base,
                                           ArrayRef<LLVM::GEPArg>{index}));
    }
    for (Operation *access : llvm::make_early_inc_range(gep->getUsers())) {
      b.setInsertionPoint(access);
      int64_t bytes = llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
      if (auto load = dyn_cast<LLVM::LoadOp>(access)) {
        Value all = arith::ConstantOp::create(b, loc, b.getZeroAttr(load.getType()));
        for (auto [lane, place] : llvm::enumerate(places))
          all = vector::InsertOp::create(
              b, loc, LLVM::LoadOp::create(b, loc, element, place, bytes), all,
              static_cast<int64_t>(lane));
        load.getRes().replaceAllUsesWith(all);
      } else {
        Value all = cast<LLVM::StoreOp>(access).getValue();
        for (auto [lane, place] : llvm::enumerate(places))
          LLVM::StoreOp::create(
              b, loc, vector::ExtractOp::create(b, loc, all, static_cast<int64_t>(lane)), place,
              bytes);
      }
      access->erase();
    }
    gep->erase();
  }
  array->erase();
}

int64_t Strips::cut() {
  bool isShared = size % width != 0;
  // Rows that begin at different alignments leave room for one vector less.
  int64_t columns = (isShared ? kThreads - 1 : kThreads) * width;
  int64_t strips = llvm::divideCeil(size, columns);
  Value strip = splitRows(rows, strips);
  b.setInsertionPointAfterValue(strip);
  Value low = arith::MulIOp::create(b, loc, strip, constant(columns));
  Value end = add(low, constant(columns));
  Value high = arith::MinSIOp::create(b, loc, end, constant(size));
  for (scf::ForOp walk : walks) {
    walk.setLowerBound(low);
    walk.setUpperBound(end);
    edges[walk] = {low, high, /*hasHead=*/false, /*surelyInside=*/0, /*isWhole=*/!isShared};
  }
  if (!isShared)
    return strips;
  for (Operation *array : llvm::to_vector(arrays))
    share(cast<LLVM::AllocaOp>(array), columns);
  for (scf::ForOp walk : walks) {
    b.setInsertionPointAfter(walk);
    gpu::BarrierOp::create(b, loc);
  }
  return strips;
}

int64_t cutColumns(func::FuncOp kernel, VectorBoundsMap &edges, int64_t &sharedBytes) {
  Strips strips(kernel, edges);
  if (!strips.match())
    return 1;
  int64_t parts = strips.cut();
  sharedBytes = strips.sharedBytes();
  return parts;
}

} // namespace llmc::emit

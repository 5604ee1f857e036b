// Verifies the ops; PlanOps.td numbers the rules.
#include "dialects/plan/Plan.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace llmc::plan;

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"

static RankedTensorType tensorOf(Value buffer) {
  return cast<BufferType>(buffer.getType()).getTensor();
}
static int64_t bytesOf(Value buffer) { return cast<BufferType>(buffer.getType()).getByteSize(); }

//===-- Stage ---------------------------------------------------------------===//

static LogicalResult verifyTable(StageOp stage) {
  llvm::StringSet<> procedures;
  for (auto procedure : stage.getBody().getOps<ProcedureOp>())
    procedures.insert(procedure.getSymName());
  for (auto [row, attribute] : llvm::enumerate(stage.getTable())) {
    auto entry = cast<EntryAttr>(attribute);
    if (!procedures.contains(entry.getProcedure().getValue()))
      return stage.emitOpError("C1: table row ")
             << row << " names procedure " << entry.getProcedure()
             << " that the stage does not have";
    for (int64_t k = 0; LaneAttr lane = entry.getLane(k); ++k) {
      if (lane.getPool() < 0 || lane.getPool() >= static_cast<int64_t>(stage.getPools().size()))
        return stage.emitOpError("C2: table row ") << row << " names pool " << lane.getPool()
                                                   << " of " << stage.getPools().size();
      int64_t slots = stage.getSlotsOf(lane.getPool());
      if (lane.getSlot() < 0 || lane.getSlot() >= slots)
        return stage.emitOpError("C2: table row ")
               << row << " uses slot " << lane.getSlot() << " of " << slots;
    }
  }
  return success();
}

// Checks C3: every root buffer, in each of its slots, lies inside the arena.
static LogicalResult verifyArena(StageOp stage) {
  int64_t arena = *stage.getArenaBytes();
  for (auto buffer : stage.getBody().getOps<BufferOp>()) {
    if (buffer.getParent())
      continue;
    if (!buffer.getOffset())
      return buffer.emitOpError("C3: has no offset although the stage has arena_bytes");
    int64_t first = *buffer.getOffset();
    int64_t stride = buffer.getSlotStride().value_or(0);
    int64_t copies =
        buffer.getSpace() == Space::slot ? stage.getSlotsOf(buffer.getPool().value_or(0)) : 1;
    int64_t end = first + stride * std::max<int64_t>(copies - 1, 0) + bytesOf(buffer.getResult());
    if (first < 0 || stride < 0 || end > arena)
      return buffer.emitOpError("C3: bytes [")
             << first << ", " << end << ") over all slots are outside the arena of " << arena;
  }
  return success();
}

static LogicalResult verifyPools(StageOp stage) {
  int64_t chunks = stage.getChunks().size(), pools = stage.getPools().size();
  if (chunks < 1)
    return stage.emitOpError("C5: needs at least one chunk");
  for (auto [i, pool] : llvm::enumerate(stage.getPools().getAsRange<PoolAttr>())) {
    if (pool.getSlots() < 1)
      return stage.emitOpError("C2: needs at least one slot, got ") << pool.getSlots();
    if (pool.getChunk() < 0 || pool.getChunk() >= chunks)
      return stage.emitOpError("C2: pool ") << i << " is of chunk " << pool.getChunk() << " of "
                                            << chunks;
    if (static_cast<int64_t>(i) < chunks && pool.getChunk() != static_cast<int64_t>(i))
      return stage.emitOpError("C5: pool ") << i << " is the main pool of chunk " << i
                                            << ", but says chunk " << pool.getChunk();
  }
  if (pools < chunks)
    return stage.emitOpError("C5: ") << chunks << " chunks need a main pool each, got " << pools;
  for (auto buffer : stage.getBody().getOps<BufferOp>())
    if (int64_t pool = buffer.getPool().value_or(0); pool < 0 || pool >= pools)
      return buffer.emitOpError("C5: names pool ") << pool << " of " << pools;
  for (auto procedure : stage.getBody().getOps<ProcedureOp>()) {
    if (int64_t chunk = procedure.getChunk().value_or(0); chunk < 0 || chunk >= chunks)
      return procedure.emitOpError("C5: names chunk ") << chunk << " of " << chunks;
    for (int64_t pool : procedure.getLanes().value_or(ArrayRef<int64_t>()))
      if (pool < 0 || pool >= pools)
        return procedure.emitOpError("C5: names pool ") << pool << " of " << pools;
  }
  return success();
}

LogicalResult StageOp::verify() {
  if (failed(verifyPools(*this)))
    return failure();
  bool proceduresBegan = false;
  for (Operation &op : getBody().front()) {
    if (!isa<BufferOp, ProcedureOp>(op))
      return op.emitOpError("C4: a stage holds buffers and procedures only");
    if (isa<BufferOp>(op) && proceduresBegan)
      return op.emitOpError("C4: buffers come before procedures");
    proceduresBegan |= isa<ProcedureOp>(op);
  }
  if (failed(verifyTable(*this)))
    return failure();
  return getArenaBytes() ? verifyArena(*this) : success();
}

//===-- Buffer --------------------------------------------------------------===//

// Checks C4: the axes that cut an input, and the dim that its loader permutes.
static LogicalResult verifyInput(BufferOp op, InputBindingAttr binding) {
  ArrayRef<int64_t> shape = cast<BufferType>(op.getType()).getTensor().getShape();
  if (binding.getDims() && binding.getDims().size() > shape.size())
    return op.emitOpError("C4: an input of rank ") << shape.size() << " has axes for each dim, got "
                                                   << binding.getDims();
  llmc::graph::LoaderAttr loader = binding.getLoader();
  if (std::string fault = loader ? loader.describeMisfit(shape, /*isShard=*/true) : "";
      !fault.empty())
    return op.emitOpError("C4: ") << fault << ", got " << loader;
  return success();
}

void BufferOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (!getParent())
    effects.emplace_back(MemoryEffects::Allocate::get(), getOperation()->getOpResult(0));
}

LogicalResult BufferOp::verify() {
  int64_t displacement = getDisplacement().value_or(0);
  if (!getParent() && getDisplacement())
    return emitOpError("C1: a displacement needs a parent");
  if (getParent()) {
    int64_t end = displacement + bytesOf(getResult());
    if (displacement < 0 || end > bytesOf(getParent()))
      return emitOpError("C1: view of bytes [")
             << displacement << ", " << end << ") leaves its parent of " << bytesOf(getParent());
    auto parent = getParent().getDefiningOp<BufferOp>();
    if (parent && parent.getSpace() != getSpace())
      return emitOpError("C3: a view lies in the space of its parent (")
             << stringifySpace(parent.getSpace()) << ")";
    if (getOffset() || getSlotStride())
      return emitOpError("C3: a view takes its offset from its parent");
  }
  if (getBinding() && getSpace() == Space::scratch)
    return emitOpError("C2: a scratch buffer has no binding");
  if (auto input = getBindingAs<InputBindingAttr>(); input && failed(verifyInput(*this, input)))
    return failure();
  if (int64_t rank = cast<BufferType>(getType()).getTensor().getRank();
      getBindingAs<FlatBindingAttr>() && rank != 1)
    return emitOpError("C6: a flat buffer has one dim, got ") << rank;
  if (getSlotStride() && getSpace() != Space::slot)
    return emitOpError("C5: only a slot buffer has a slot_stride");
  if (getPool() && getSpace() != Space::slot)
    return emitOpError("C5: only a slot buffer has a pool");
  return success();
}

//===-- Instructions --------------------------------------------------------===//

// Returns whether `op` is grouped without a message of its stream right before it.
static bool isTorn(Operation &op) {
  if (!op.hasAttr("grouped"))
    return false;
  Operation *before = op.getPrevNode();
  return !isa_and_nonnull<SendOp, RecvOp>(before) ||
         before->getAttr("stream") != op.getAttr("stream");
}

LogicalResult ProcedureOp::verify() {
  bool exchange = getKind() == ProcedureKind::exchange;
  for (Operation &op : getBody().front()) {
    bool message = isa<SendOp, RecvOp>(op);
    if (exchange && !message && !isa<RecordOp, WaitOp>(op))
      return op.emitOpError("C3: an exchange holds messages and events only");
    if (message && isTorn(op))
      return op.emitOpError("C4: is grouped, but no message of its stream stands right before it");
    auto stream = op.getAttrOfType<IntegerAttr>("stream");
    if (!stream)
      return op.emitOpError("C1: a procedure holds instructions only");
    if (stream.getInt() < 0 || stream.getInt() > 255)
      return op.emitOpError("C2: stream is in [0, 255], got ") << stream.getInt();
  }
  return success();
}

LogicalResult GroupOp::verify() {
  Block &body = getBody().front();
  if (!llvm::equal(body.getArgumentTypes(), getInputs().getTypes()))
    return emitOpError("C1: body arguments have other types than the inputs");
  if (body.empty() || !isa<YieldOp>(body.back()))
    return emitOpError("C1: body must end with plan.yield");
  if (!llvm::equal(body.getTerminator()->getOperandTypes(), getResultTypes()))
    return emitOpError("C1: body yields other types than the results");
  for (Operation &op : body.without_terminator())
    if (!isa<graph::GraphOpInterface>(op))
      return op.emitOpError("C2: is no graph op that computes");
  return success();
}

LogicalResult LaunchOp::verify() {
  Block &body = getBody().front();
  size_t scalars = getScalars() ? getScalars()->size() : 0;
  if (body.getNumArguments() != getReads().size() + scalars)
    return emitOpError("C1: body has ")
           << body.getNumArguments() << " arguments for " << getReads().size() << " reads and "
           << scalars << " scalars";
  for (auto [i, read] : llvm::enumerate(getReads()))
    if (body.getArgument(i).getType() != tensorOf(read))
      return emitOpError("C1: body argument ") << i << " is " << body.getArgument(i).getType()
                                               << ", its buffer holds " << tensorOf(read);
  auto scalarType = RankedTensorType::get({}, IntegerType::get(getContext(), 64));
  for (size_t i = getReads().size(); i < body.getNumArguments(); ++i)
    if (body.getArgument(i).getType() != scalarType)
      return emitOpError("C1: scalar argument ")
             << i << " is " << body.getArgument(i).getType() << ", must be " << scalarType;
  if (body.empty() || !isa<YieldOp>(body.back()))
    return emitOpError("C1: body must end with plan.yield");
  auto values = cast<YieldOp>(body.back()).getValues();
  if (values.size() != getWrites().size())
    return emitOpError("C1: body yields ")
           << values.size() << " tensors for " << getWrites().size() << " writes";
  for (auto [i, write] : llvm::enumerate(getWrites()))
    if (values[i].getType() != tensorOf(write))
      return emitOpError("C1: body yields ")
             << values[i].getType() << " for a buffer of " << tensorOf(write);
  if (ArrayAttr list = getScalarsAttr())
    for (Attribute scalar : list)
      if (auto terms = dyn_cast<DenseI64ArrayAttr>(scalar); !terms || terms.empty())
        return emitOpError("C2: a scalar is array<i64: base, coefficients>, got ") << scalar;
  if (getKernel().has_value() != getRows().has_value())
    return emitOpError("C3: kernel and rows are set together");
  if (RoutesAttr routes = getRoutesAttr())
    if (!isa<graph::RouteOp, graph::LimitRoutesOp>(body.front()) || getWrites().size() != 1 ||
        tensorOf(getWrites()[0]).getRank() != routes.getShape().size())
      return emitOpError("C4: has ") << routes << ", and is not one op that writes routes of as many dims";
  return success();
}

// Checks "ab,bc->ac" against three tensors: ranks, one size a letter, no letter twice.
LogicalResult MatmulOp::verify() {
  auto [inputs, out] = getEquation().split("->");
  auto [lhs, rhs] = inputs.split(",");
  llvm::DenseMap<char, int64_t> sizes;
  for (auto [letters, value] : {std::pair(lhs, getLhs()), {rhs, getRhs()}, {out, getOut()}}) {
    auto shape = tensorOf(value).getShape();
    if (letters.size() != shape.size())
      return emitOpError("C1: equation gives rank ")
             << letters.size() << " to a buffer of rank " << shape.size();
    llvm::DenseSet<char> seen;
    for (auto [letter, size] : llvm::zip(letters, shape)) {
      if (!seen.insert(letter).second)
        return emitOpError("C2: letter '") << StringRef(&letter, 1) << "' stands twice in a tensor";
      if (sizes.try_emplace(letter, size).first->second != size)
        return emitOpError("C2: letter '")
               << StringRef(&letter, 1) << "' has two sizes, " << sizes[letter] << " and " << size;
    }
  }
  for (char letter : out)
    if (!lhs.contains(letter) && !rhs.contains(letter))
      return emitOpError("C3: result letter '") << StringRef(&letter, 1) << "' is in no operand";
  for (char letter : inputs)
    if (letter != ',' && !out.contains(letter) && !(lhs.contains(letter) && rhs.contains(letter)))
      return emitOpError("C3: letter '")
             << StringRef(&letter, 1) << "' is neither in the result nor in both operands";
  return success();
}

bool GroupedMatmulOp::isOuter() {
  ArrayRef<int64_t> out = tensorOf(getOut()).getShape(), routes = tensorOf(getRoutes()).getShape();
  return out.empty() || out.drop_back() != routes;
}

// Checks the shapes as graph.grouped_matmul and graph.grouped_outer do.
LogicalResult GroupedMatmulOp::verify() {
  ArrayRef<int64_t> x = tensorOf(getLhs()).getShape(), y = tensorOf(getRhs()).getShape(),
                    routes = tensorOf(getRoutes()).getShape(), out = tensorOf(getOut()).getShape();
  if (x.empty() || y.empty() || routes.empty() || out.empty())
    return emitOpError("C1: a buffer is a scalar");
  auto isRows = [&](ArrayRef<int64_t> shape) {
    return shape.drop_back() == routes || shape.drop_back() == routes.drop_back();
  };
  bool fits = isOuter() ? out.size() == 3 && isRows(x) && isRows(y) && out[1] == x.back() && out[2] == y.back()
                        : y.size() == 3 && isRows(x) && y[getTransposed() ? 2 : 1] == x.back() &&
                              y[getTransposed() ? 1 : 2] == out.back();
  if (!fits)
    return emitOpError("C1: shapes are those of no product: ")
           << tensorOf(getLhs()) << " and " << tensorOf(getRhs()) << " by " << tensorOf(getRoutes()) << " into "
           << tensorOf(getOut());
  if ((getAccumulate() && !isOuter()) || (getTransposed() && isOuter()))
    return emitOpError("C2: ") << (isOuter() ? "an outer product is transposed" : "a product with weights accumulates");
  return success();
}

LogicalResult CollectiveOp::verify() {
  if (getAxes().empty())
    return emitOpError("C1: a collective needs at least one axis");
  if (getMembers() && getAxes().size() != 1)
    return emitOpError("C2: members pick coordinates of one axis, got ")
           << getAxes().size() << " axes";
  RankedTensorType src = tensorOf(getSrc()), dst = tensorOf(getDst());
  if (src.getElementType() != dst.getElementType())
    return emitOpError("C3: element types differ: ") << src << " and " << dst;
  bool wholes = getKind() != CollectiveKind::all_gather && getKind() != CollectiveKind::reduce_scatter;
  int64_t a = src.getNumElements(), b = dst.getNumElements();
  bool byRows = getKind() == CollectiveKind::exchange_rows;
  if (byRows) {
    bool fits = getCounts().size() == 2 && src.getRank() > 0 && dst.getRank() > 0 &&
                src.getShape().back() == dst.getShape().back();
    for (Value counts : getCounts())
      fits &= tensorOf(counts).getElementType().isInteger(64) &&
              tensorOf(counts).getShape() == tensorOf(getCounts()[0]).getShape();
    if (!fits)
      return emitOpError("C6: exchanges rows of ") << src << " and " << dst << " by " << getCounts().size()
                                                   << " counts";
  } else if (!getCounts().empty()) {
    return emitOpError("C6: ") << stringifyCollectiveKind(getKind()) << " has counts of rows";
  }
  if (byRows                                    ? false
      : wholes                                    ? a != b
      : getKind() == CollectiveKind::all_gather ? a == 0 || b % a != 0
                                                : b == 0 || a % b != 0)
    return emitOpError("C4: ") << stringifyCollectiveKind(getKind()) << " of " << a
                               << " elements cannot give " << b;
  int64_t slices = getSlices().value_or(1);
  if (slices < 1 || (slices > 1 && (wholes || std::min(a, b) % slices != 0)))
    return emitOpError("C5: ") << stringifyCollectiveKind(getKind()) << " of a shard of " << std::min(a, b)
                               << " elements in " << slices << " slices";
  return success();
}

LogicalResult CopyOp::verify() {
  if (bytesOf(getSrc()) != bytesOf(getDst()))
    return emitOpError("C1: copies ") << bytesOf(getSrc()) << " bytes into " << bytesOf(getDst());
  return success();
}

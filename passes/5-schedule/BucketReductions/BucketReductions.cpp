// Moves data-parallel gradient reductions into the last backward, in buckets.
#include "passes/5-schedule/Passes.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/ValueVersions.h"

#include "passes/5-schedule/Buffers.h"
#include "passes/5-schedule/Streams.h"

namespace llmc {
#define GEN_PASS_DEF_BUCKETREDUCTIONS
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

constexpr StringLiteral bucketPieces = "plan.bucket_pieces";

Type elementOf(plan::BufferOp buffer) {
  return cast<plan::BufferType>(buffer.getType()).getTensor().getElementType();
}

// Represents bytes of one accumulator, or of one state of whole gradients.
struct StateBytes {
  plan::BufferOp root;
  int64_t low, high;
};

// Represents a sum over replicas, and the launch that casts gradients to the type of the sum; null
// if they are summed where they are.
struct Reduction {
  plan::CollectiveOp op;
  plan::LaunchOp cast;
};

// Represents bytes of one accumulator that finish together: a whole state, or one layer of it.
struct Piece {
  plan::BufferOp root; // of what is summed: the accumulator's own, or that of its cast
  int64_t low, high;
  StateBytes state;
  ArrayAttr axes; // of the communicator of its sum
  plan::LaunchOp cast;
  Operation *lastWrite = nullptr; // of the accumulator
  Type element() { return elementOf(root); }
};

struct Bucket {
  int64_t low, high;
  ArrayAttr axes;
  Type element;
  Operation *lastWrite;
  SmallVector<StringAttr> names;      // of the source's tensors
  plan::CollectiveOp scatter;         // not null: a bucket of its own, which a reduce-scatter moves
  SmallVector<plan::LaunchOp, 1> casts; // of what is summed
};

class StageBuckets {
public:
  // Cuts buckets of the piece counts in `given`; if that is empty, buckets of at least
  // `bucketBytes`.
  StageBuckets(plan::StageOp stage, int64_t bucketBytes, ArrayRef<int64_t> given)
      : stage(stage), bucketBytes(bucketBytes), given(given) {
    for (auto procedure : stage.getBody().getOps<plan::ProcedureOp>())
      if (procedure.getKind() == plan::ProcedureKind::backward_last ||
          procedure.getKind() == plan::ProcedureKind::weight_last)
        lasts.push_back(procedure);
      else if (procedure.getKind() == plan::ProcedureKind::update)
        update = procedure;
    // The last chunk runs its backward first.
    llvm::stable_sort(lasts, [](plan::ProcedureOp x, plan::ProcedureOp y) {
      return x.getChunk().value_or(0) > y.getChunk().value_or(0);
    });
    int64_t n = 0;
    for (plan::ProcedureOp procedure : lasts)
      for (Operation &op : procedure.getBody().front())
        position[&op] = n++;
  }
  LogicalResult run();
  // Counts the pieces of each bucket, in the order of the buffer.
  SmallVector<int64_t> counts;

private:
  void collect();
  void collectScatters();
  Operation *lastWriteOf(const StateBytes &bytes);
  plan::LaunchOp castOf(plan::CollectiveOp op);
  bool isUntouchedBefore(Operation *op, Value buffer);
  void findPieces();
  void makeAdjacent();
  LogicalResult cut(std::vector<Bucket> &buckets);
  LogicalResult emit();
  void emitBucket(OpBuilder &b, EventAllocator &events, Bucket &bucket);
  SmallVector<StringAttr> sourceNames(const Piece &piece);

  plan::StageOp stage;
  int64_t bucketBytes;
  ArrayRef<int64_t> given;
  SmallVector<plan::ProcedureOp> lasts; // in the order in which they run
  plan::ProcedureOp update;
  DenseMap<Operation *, int64_t> position; // of the instructions of `lasts`
  SmallVector<Reduction> reductions;
  std::vector<Bucket> scatters;
  std::vector<Piece> pieces;
  Value gradients;
};

LogicalResult StageBuckets::run() {
  if (lasts.empty() || !update)
    return success();
  collect();
  collectScatters();
  if (reductions.empty() && scatters.empty())
    return success();
  if (!reductions.empty()) {
    findPieces();
    makeAdjacent();
  }
  return emit();
}

// Returns the accumulator to which the bytes of a buffer belong, a parameter's or a flat bucket's;
// null if they belong to none.
static plan::StateBindingAttr accumulatorOf(plan::BufferOp root) {
  auto binding = root ? root.getBindingAs<plan::StateBindingAttr>() : plan::StateBindingAttr();
  return binding && root.getSpace() == plan::Space::persistent &&
                 binding.getRole() == graph::Role::accumulator
             ? binding
             : plan::StateBindingAttr();
}

// Returns whether nothing in the update touches the bytes of a buffer before `op`.
bool StageBuckets::isUntouchedBefore(Operation *op, Value buffer) {
  auto [root, low] = rootOf(buffer);
  int64_t high = low + bytesOf(buffer);
  for (Operation &other : update.getBody().front()) {
    if (&other == op)
      return true;
    for (Value operand : other.getOperands())
      if (auto [at, begin] = rootOf(operand);
          at == root && begin < high && low < begin + bytesOf(operand))
        return false;
  }
  return false;
}

// Returns the launch of the update that casts an accumulator to what `op` sums; null if there is
// none, or if other values have these bytes too before it.
plan::LaunchOp StageBuckets::castOf(plan::CollectiveOp op) {
  if (rootOf(op.getSrc()).first.getSpace() != plan::Space::scratch)
    return {};
  // Another launch that uses the bytes before makes something else of them: sums of squares are added up there.
  SmallVector<plan::LaunchOp> launches;
  for (Operation *user : op.getSrc().getUsers())
    if (auto launch = dyn_cast<plan::LaunchOp>(user);
        launch && launch->getBlock() == op->getBlock() && launch->isBeforeInBlock(op))
      launches.push_back(launch);
  plan::LaunchOp cast = launches.size() == 1 ? launches.front() : plan::LaunchOp();
  if (!cast || !isa<graph::CastOp>(cast.getBody().front().front()) || cast.getWrites().size() != 1 || cast.getWrites()[0] != op.getSrc() ||
      cast.getReads().size() != 1 || !accumulatorOf(rootOf(cast.getReads()[0]).first) ||
      !isUntouchedBefore(cast, op.getSrc()) ||
      (op.getDst() != op.getSrc() && !isUntouchedBefore(op, op.getDst())))
    return {};
  return cast;
}

// Collects the in-place sums of whole accumulators over the data axis, and perhaps others: a
// parameter that tp ranks hold whole but use in part has partial gradients over tp too.
void StageBuckets::collect() {
  for (auto op : update.getBody().getOps<plan::CollectiveOp>()) {
    if (op.getKind() != plan::CollectiveKind::all_reduce || op.getSrc() != op.getDst() ||
        op.getMembers() || !parallel::areOverReplicas(op, op.getAxes()))
      continue;
    plan::LaunchOp cast = castOf(op);
    Value source = cast ? cast.getReads()[0] : op.getSrc();
    plan::BufferOp root = rootOf(source).first;
    plan::StateBindingAttr binding = accumulatorOf(root);
    // The sums of the step itself (loss, tokens) belong to no parameter and stay in the update.
    auto state = binding ? SymbolTable::lookupNearestSymbolFrom<graph::StateOp>(
                               stage->getParentOp(), binding.getState())
                         : graph::StateOp();
    if (state && state.getOf() && (cast || root.getResult() == op.getSrc()))
      reductions.push_back({op, cast});
  }
}

// Returns the last instruction of the last backward that writes some of these bytes; null if none
// does.
Operation *StageBuckets::lastWriteOf(const StateBytes &bytes) {
  Operation *last = nullptr;
  for (plan::ProcedureOp procedure : lasts)
    for (Operation &op : procedure.getBody().front())
      for (Value written : writtenBy(op))
        if (auto [at, begin] = rootOf(written);
            at == bytes.root && begin < bytes.high && bytes.low < begin + bytesOf(written))
          last = &op;
  return last;
}

// Collects the reduce-scatters of gradients that a step has added up whole.
void StageBuckets::collectScatters() {
  for (auto op : update.getBody().getOps<plan::CollectiveOp>()) {
    if (op.getKind() != plan::CollectiveKind::reduce_scatter || !parallel::areOverReplicas(op, op.getAxes()))
      continue;
    plan::LaunchOp cast = castOf(op);
    Value source = cast ? cast.getReads()[0] : op.getSrc();
    auto [root, low] = rootOf(source);
    if (!accumulatorOf(root) ||
        (!cast && rootOf(op.getDst()).first.getSpace() != plan::Space::persistent))
      continue;
    StateBytes bytes = {root, low, low + bytesOf(source)};
    scatters.push_back({low, bytes.high, op.getAxes(), elementOf(root), lastWriteOf(bytes), {}, op, {}});
    if (cast)
      scatters.back().casts.push_back(cast);
  }
}

// Cuts stacked accumulators at layers and finds the last instruction that writes each piece. Casts
// are cut already.
void StageBuckets::findPieces() {
  for (auto [op, cast] : reductions) {
    if (cast) {
      auto [root, low] = rootOf(op.getSrc());
      auto [state, begin] = rootOf(cast.getReads()[0]);
      pieces.push_back({root, low, low + bytesOf(op.getSrc()),
                        {state, begin, begin + bytesOf(cast.getReads()[0])}, op.getAxes(), cast});
      continue;
    }
    plan::BufferOp root = rootOf(op.getSrc()).first;
    int64_t layers = root.getBindingAs<plan::StateBindingAttr>().getNumLayers();
    int64_t bytes = bytesOf(root.getResult()) / layers;
    for (int64_t i = 0; i < layers; ++i)
      pieces.push_back({root, i * bytes, (i + 1) * bytes, {root, i * bytes, (i + 1) * bytes}, op.getAxes(), {}});
  }
  // Looks at each write once: a stage has many pieces.
  DenseMap<Operation *, SmallVector<Piece *>> piecesOf;
  for (Piece &piece : pieces)
    piecesOf[piece.state.root].push_back(&piece);
  for (plan::ProcedureOp last : lasts)
    for (Operation &op : last.getBody().front())
      for (Value written : writtenBy(op)) {
        auto [root, low] = rootOf(written);
        auto found = piecesOf.find(root);
        if (found == piecesOf.end())
          continue;
        for (Piece *piece : found->second)
          if (piece->state.low < low + bytesOf(written) && low < piece->state.high)
            piece->lastWrite = &op;
      }
}

// Makes a buffer and its views persistent: what is in them outlives the procedure. What a cast
// writes, and then its sum in place, are one value now for those who read it in the update.
static void keep(plan::BufferOp buffer) {
  if (buffer.getSpace() == plan::Space::persistent)
    return;
  buffer.setSpace(plan::Space::persistent);
  for (OpOperand &use : buffer.getResult().getUses()) {
    Operation *user = use.getOwner();
    if (auto view = dyn_cast<plan::BufferOp>(user))
      keep(view);
    auto versions = user->getAttrOfType<DenseI64ArrayAttr>(plan::kValueVersions);
    if (!versions || versions[use.getOperandNumber()] != 1)
      continue;
    SmallVector<int64_t> list(versions.asArrayRef());
    list[use.getOperandNumber()] = 0;
    user->setAttr(plan::kValueVersions, DenseI64ArrayAttr::get(user->getContext(), list));
  }
}

// Makes all accumulators, or their casts, views of one buffer: whole states together, those of equal types and axes
// together, and of these the first to finish in front. Layers of a stacked state finish from the end, so the
// buffer fills from its end where states interleave. The order only decides how early a bucket can
// start, never what it sums.
void StageBuckets::makeAdjacent() {
  DenseMap<Operation *, int64_t> finished;
  DenseMap<Operation *, size_t> numAxes;
  llvm::MapVector<Type, size_t> elements; // in order of appearance
  int64_t total = 0;
  SmallVector<plan::BufferOp> roots;
  for (Piece &piece : pieces) {
    if (!finished.count(piece.root))
      roots.push_back(piece.root);
    numAxes[piece.root] = piece.axes.size();
    elements.insert({piece.element(), elements.size()});
    int64_t &when = finished[piece.root];
    when = std::max(when, piece.lastWrite ? position[piece.lastWrite] : 0);
  }
  auto key = [&](plan::BufferOp root) {
    return std::tuple(elements.lookup(elementOf(root)), numAxes[root], finished[root]);
  };
  llvm::stable_sort(roots, [&](plan::BufferOp a, plan::BufferOp b) { return key(a) < key(b); });
  for (plan::BufferOp root : roots)
    total += bytesOf(root.getResult());
  OpBuilder b(stage.getContext());
  b.setInsertionPointToStart(&stage.getBody().front());
  Type element = elements.size() == 1 ? elements.front().first : Type(b.getI8Type());
  gradients = plan::BufferOp::create(b, stage.getLoc(), vectorOf(element, total), Value(), plan::SpaceAttr::get(b.getContext(), plan::Space::persistent),
                                     IntegerAttr(), IntegerAttr(), IntegerAttr(), Attribute(),
                                     IntegerAttr());
  int64_t at = 0;
  std::vector<Piece> ordered;
  for (plan::BufferOp root : roots) {
    keep(root);
    root.getParentMutable().assign(gradients);
    root.setDisplacement(at);
    for (Piece piece : pieces)
      if (piece.root == root) {
        piece.low += at;
        piece.high += at;
        ordered.push_back(piece);
      }
    at += bytesOf(root.getResult());
  }
  pieces = std::move(ordered);
}

// Returns the source names of the parameters whose gradients are in a piece.
SmallVector<StringAttr> StageBuckets::sourceNames(const Piece &piece) {
  plan::BufferOp root = piece.state.root;
  auto binding = root.getBindingAs<plan::StateBindingAttr>();
  auto module = stage->getParentOfType<ModuleOp>();
  auto lookUp = [&](FlatSymbolRefAttr name) {
    return name ? module.lookupSymbol<graph::StateOp>(name.getAttr()) : graph::StateOp();
  };
  graph::StateOp state = lookUp(binding.getState());
  graph::StateOp parameter = state ? lookUp(state.getOfAttr()) : state;
  SmallVector<StringAttr> names;
  if (!parameter || !parameter.getViews())
    return names;
  auto views = parameter.getViews()->getAsRange<graph::ViewAttr>();
  int64_t first = 0, count = llvm::range_size(views);
  if (binding.isStacked()) {
    // A piece is one layer of a stacked state.
    first = binding.getFirstLayer() + piece.state.low / (piece.state.high - piece.state.low);
    count = 1;
  }
  for (graph::ViewAttr view : llvm::drop_begin(views, first)) {
    if (count-- == 0)
      break;
    names.push_back(view.getSource().getAttr());
  }
  return names;
}

// Joins adjacent pieces of equal axes until the bucket is large enough, or has the given count.
// Emits an error if the given counts do not divide the pieces.
LogicalResult StageBuckets::cut(std::vector<Bucket> &buckets) {
  for (Piece &piece : pieces) {
    bool full = buckets.empty() || buckets.back().axes != piece.axes ||
                buckets.back().element != piece.element() ||
                (given.empty() ? buckets.back().high - buckets.back().low >= bucketBytes
                               : counts.size() <= given.size() && counts.back() == given[counts.size() - 1]);
    if (full) {
      buckets.push_back({piece.low, piece.low, piece.axes, piece.element(), nullptr, {}, {}, {}});
      counts.push_back(0);
    }
    ++counts.back();
    Bucket &bucket = buckets.back();
    bucket.high = piece.high;
    if (!bucket.lastWrite ||
        (piece.lastWrite && position[piece.lastWrite] > position[bucket.lastWrite]))
      bucket.lastWrite = piece.lastWrite;
    if (piece.cast)
      bucket.casts.push_back(piece.cast);
    for (StringAttr name : sourceNames(piece))
      if (!llvm::is_contained(bucket.names, name))
        bucket.names.push_back(name);
  }
  // Another optimizer may leave nothing to cut: its states are shared out, and scatters sum them.
  if (!given.empty() && !pieces.empty() && given != ArrayRef<int64_t>(counts))
    return stage.emitError("has ") << pieces.size()
                                   << " pieces of gradients, which plan.bucket_pieces does not divide";
  return success();
}

// Starts the collective of a bucket when its last write is done.
void StageBuckets::emitBucket(OpBuilder &b, EventAllocator &events, Bucket &bucket) {
  plan::ProcedureOp last =
      bucket.lastWrite ? bucket.lastWrite->getParentOfType<plan::ProcedureOp>() : lasts.back();
  int64_t event = events.take();
  auto origin = plan::OriginAttr::get(b.getContext(), "gradients", bucket.names, "data",
                                      "sum of the replicas' gradients, once a step");
  if (bucket.scatter)
    origin = bucket.scatter.getOriginAttr();
  if (bucket.lastWrite)
    b.setInsertionPointAfter(bucket.lastWrite);
  else
    b.setInsertionPointToStart(&last.getBody().front());
  // Skips the events that are there already: buckets start in this order.
  while (b.getInsertionPoint() != last.getBody().front().end() &&
         isa<plan::RecordOp, plan::WaitOp>(*b.getInsertionPoint()))
    b.setInsertionPoint(b.getInsertionBlock(), std::next(b.getInsertionPoint()));
  Location loc = stage.getLoc();
  plan::RecordOp::create(b, loc, event, true, IntegerAttr(), kCompute, origin);
  // Reductions are at the end of the procedure, in bucket order.
  b.setInsertionPointToEnd(&last.getBody().front());
  plan::WaitOp::create(b, loc, event, true, IntegerAttr(), kReductions, origin);
  // Casts run beside the reductions, in their order, so that what they write is there one bucket
  // after the other.
  for (plan::LaunchOp cast : bucket.casts) {
    cast->moveBefore(&last.getBody().front(), last.getBody().front().end());
    cast.setStream(kReductions);
  }
  if (bucket.scatter) {
    bucket.scatter->moveBefore(&last.getBody().front(), last.getBody().front().end());
    bucket.scatter.setStream(kReductions);
    keep(rootOf(bucket.scatter.getDst()).first);
    return;
  }
  b.setInsertionPoint(*stage.getBody().getOps<plan::ProcedureOp>().begin());
  Value buffer = plan::BufferOp::create(
      b, loc, vectorOf(bucket.element, bucket.high - bucket.low), gradients,
      plan::SpaceAttr::get(b.getContext(), plan::Space::persistent),
      b.getI64IntegerAttr(bucket.low), IntegerAttr(), IntegerAttr(), Attribute(), IntegerAttr());
  b.setInsertionPointToEnd(&last.getBody().front());
  plan::CollectiveOp::create(
      b, loc, plan::CollectiveKindAttr::get(b.getContext(), plan::CollectiveKind::all_reduce),
      graph::ReduceKindAttr::get(b.getContext(), graph::ReduceKind::sum), buffer, buffer,
      ValueRange(), bucket.axes, DenseI64ArrayAttr(), IntegerAttr(), b.getI64IntegerAttr(kReductions), origin);
}

LogicalResult StageBuckets::emit() {
  std::vector<Bucket> buckets;
  if (failed(cut(buckets)))
    return failure();
  llvm::append_range(buckets, scatters);
  llvm::stable_sort(buckets, [&](const Bucket &a, const Bucket &b) {
    return position.lookup(a.lastWrite) < position.lookup(b.lastWrite);
  });
  OpBuilder b(stage.getContext());
  EventAllocator events(stage);
  for (Bucket &bucket : buckets)
    emitBucket(b, events, bucket);
  auto done = plan::OriginAttr::get(b.getContext(), "gradients", {}, "data", "all buckets are summed");
  int64_t event = events.take();
  b.setInsertionPointToEnd(&lasts.back().getBody().front());
  plan::RecordOp::create(b, stage.getLoc(), event, true, IntegerAttr(), kReductions, done);
  b.setInsertionPointToStart(&update.getBody().front());
  plan::WaitOp::create(b, stage.getLoc(), event, true, IntegerAttr(), kCompute, done);
  for (Reduction &reduction : reductions)
    reduction.op.erase();
  return success();
}

struct BucketReductions : impl::BucketReductionsBase<BucketReductions> {
  using BucketReductionsBase::BucketReductionsBase;
  void runOnOperation() override {
    auto given = getOperation()->getAttrOfType<ArrayAttr>(bucketPieces);
    SmallVector<Attribute> made;
    for (auto stage : getOperation().getOps<plan::StageOp>()) {
      addLastBackward(stage);
      ArrayRef<int64_t> counts;
      if (given && made.size() < given.size())
        counts = cast<DenseI64ArrayAttr>(given[made.size()]).asArrayRef();
      StageBuckets buckets(stage, bucketBytes, counts);
      if (failed(buckets.run()))
        return signalPassFailure();
      made.push_back(DenseI64ArrayAttr::get(&getContext(), buckets.counts));
    }
    getOperation()->setAttr(bucketPieces, ArrayAttr::get(&getContext(), made));
  }
  // Adds the backward of the last micro-batch as a procedure of its own, since it alone starts
  // reductions; where backward is split the weight gradients, which end a chunk's gradients.
  void addLastBackward(plan::StageOp stage) {
    SmallVector<plan::ProcedureOp> all(stage.getBody().getOps<plan::ProcedureOp>());
    for (plan::ProcedureOp procedure : all) {
      uint64_t chunk = procedure.getChunk().value_or(0);
      bool isSplit = llvm::any_of(all, [&](plan::ProcedureOp other) {
        return other.getKind() == plan::ProcedureKind::weight && other.getChunk().value_or(0) == chunk;
      });
      if (procedure.getKind() != (isSplit ? plan::ProcedureKind::weight : plan::ProcedureKind::backward))
        continue;
      OpBuilder b(procedure);
      b.setInsertionPointAfter(procedure);
      auto copy = cast<plan::ProcedureOp>(b.clone(*procedure));
      copy.setSymName(getProcedureName(isSplit ? "weight_last" : "backward_last", chunk));
      copy.setKind(isSplit ? plan::ProcedureKind::weight_last : plan::ProcedureKind::backward_last);
    }
  }
};

} // namespace
} // namespace llmc

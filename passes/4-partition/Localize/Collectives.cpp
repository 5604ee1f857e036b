#include "passes/4-partition/Localize/Collectives.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::ReduceKind;

namespace {
class Mover {
public:
  Mover(OpBuilder &builder, Location loc, Value value, ShardingAttr from, ShardingAttr to,
        MeshAttr mesh, Attribute origin)
      : builder(builder), loc(loc), value(value), mesh(mesh), origin(origin), kind(from.getKind()),
        dims(getAxes(from)), wanted(getAxes(to)) {
    for (StringAttr axis : from.getUnreduced())
      if (!to.isUnreducedOver(axis.getValue()))
        pending.push_back(axis);
    pending = Axes(mesh.inGroupOrder(pending));
  }

  Value run() {
    for (size_t d = 0; d < dims.size(); ++d)
      scatter(d);
    if (!pending.empty())
      finish(AllReduceOp::create(builder, loc, value.getType(), value, names(pending), kind,
                                 DenseI64ArrayAttr()));
    for (size_t d = 0; d < dims.size(); ++d)
      exchange(d);
    for (size_t d = 0; d < dims.size(); ++d)
      gather(d);
    for (size_t d = 0; d < dims.size(); ++d)
      slice(d);
    return value;
  }

private:
  ArrayAttr names(ArrayRef<StringAttr> axes) {
    return builder.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
  }
  void finish(Operation *op) {
    if (origin)
      op->setAttr(kOrigin, origin);
    value = op->getResult(0);
  }
  RankedTensorType scaled(size_t d, ArrayRef<StringAttr> axes, bool grows) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    int64_t group = getGroupSize(mesh, axes);
    shape[d] = grows ? shape[d] * group : shape[d] / group;
    return RankedTensorType::get(shape, type.getElementType());
  }
  size_t commonPrefix(size_t d) {
    size_t n = 0;
    while (n < dims[d].size() && n < wanted[d].size() && dims[d][n] == wanted[d][n])
      ++n;
    return n;
  }
  // Cuts dim `d` further by a reduce_scatter, if all axes of the new cuts are still to be summed
  // over.
  void scatter(size_t d) {
    size_t common = commonPrefix(d);
    if (common != dims[d].size() || wanted[d].size() == common || kind != ReduceKind::sum)
      return;
    Axes more(ArrayRef<StringAttr>(wanted[d]).drop_front(common));
    if (!llvm::all_of(more, [&](StringAttr a) { return llvm::is_contained(pending, a); }))
      return;
    finish(ReduceScatterOp::create(builder, loc, scaled(d, more, false), value, names(more), d, kind));
    llvm::erase_if(pending, [&](StringAttr a) { return llvm::is_contained(more, a); });
    dims[d] = wanted[d];
  }
  // Moves the last cuts of dim `d` to another dim by an all-to-all, if they are the next that this one
  // wants.
  void exchange(size_t d) {
    ArrayRef<StringAttr> away = ArrayRef<StringAttr>(dims[d]).drop_front(commonPrefix(d));
    if (away.empty())
      return;
    for (size_t e = 0; e < dims.size(); ++e) {
      Axes moved(dims[e]);
      moved.append(away.begin(), away.end());
      bool isNext = e != d && moved.size() <= wanted[e].size() &&
                    std::equal(moved.begin(), moved.end(), wanted[e].begin());
      if (!isNext)
        continue;
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape(type.getShape());
      int64_t group = getGroupSize(mesh, away);
      shape[d] *= group;
      shape[e] /= group;
      Axes axes(away);
      dims[d].truncate(dims[d].size() - axes.size());
      dims[e] = moved;
      return finish(AllToAllOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()), value,
                                       names(axes), e, d));
    }
  }
  void gather(size_t d) {
    size_t common = commonPrefix(d);
    if (common == dims[d].size())
      return;
    Axes away(ArrayRef<StringAttr>(dims[d]).drop_front(common));
    finish(AllGatherOp::create(builder, loc, scaled(d, away, true), value, names(away), d));
    dims[d].resize(common);
  }
  void slice(size_t d) {
    Axes more(ArrayRef<StringAttr>(wanted[d]).drop_front(dims[d].size()));
    if (more.empty())
      return;
    finish(AllSliceOp::create(builder, loc, scaled(d, more, false), value, names(more), d));
    dims[d] = wanted[d];
  }

  OpBuilder &builder;
  Location loc;
  Value value;
  MeshAttr mesh;
  Attribute origin;
  ReduceKind kind;
  SmallVector<Axes> dims, wanted;
  Axes pending;
};
} // namespace

Value llmc::reshardLocal(OpBuilder &builder, Location loc, Value value, ShardingAttr from,
                        ShardingAttr to, MeshAttr mesh, Attribute origin) {
  return Mover(builder, loc, value, from, to, mesh, origin).run();
}

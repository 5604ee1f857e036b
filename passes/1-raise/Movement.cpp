#include "passes/1-raise/Movement.h"

#include <numeric>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

using Part = Movement::Part;
using Parts = Movement::Parts;

Parts raise::contiguousDim(int64_t size, int64_t stride) {
  return size == 1 ? Parts{} : Parts{Part{size, stride}};
}

static void startAt(Movement &movement, Value base) {
  movement.base = base;
  movement.factor = 1;
  movement.ops = 0;
  movement.dims.clear();
  ArrayRef<int64_t> shape = shapeOf(base);
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
    movement.dims.insert(movement.dims.begin(), contiguousDim(shape[dim], stride));
}

// Merges neighbouring parts that are one run of elements.
static void joinParts(Parts &parts) {
  Parts joined;
  for (Part part : parts) {
    bool continues = !joined.empty() && joined.back().stride == part.stride * part.size &&
                     (part.stride != 0 || joined.back().stride == 0);
    if (continues)
      joined.back() = {joined.back().size * part.size, part.stride};
    else
      joined.push_back(part);
  }
  parts = std::move(joined);
}

bool raise::regroup(SmallVectorImpl<Parts> &from, ArrayRef<int64_t> shape) {
  SmallVector<Part> parts;
  for (const Parts &dim : from)
    parts.append(dim.begin(), dim.end());
  SmallVector<Parts, 4> dims;
  size_t next = 0;
  for (int64_t size : shape) {
    Parts &dim = dims.emplace_back();
    while (size > 1) {
      if (next == parts.size())
        return false;
      Part &part = parts[next];
      if (size % part.size == 0) {
        dim.push_back(part);
        size /= part.size;
        ++next;
      } else if (part.size % size == 0) {
        part.size /= size;
        dim.push_back({size, part.stride * part.size});
        size = 1;
      } else {
        return false;
      }
    }
  }
  for (Parts &dim : dims)
    joinParts(dim);
  from.assign(dims.begin(), dims.end());
  return next == parts.size();
}

// Returns the index of the operand that `op` multiplies by a number, and the number.
static std::optional<std::pair<unsigned, double>> factorOf(Operation *op) {
  if (!isa<MulOp, DivOp>(op))
    return std::nullopt;
  for (unsigned i : {0u, 1u}) {
    auto number = scalarOf(op->getOperand(1 - i));
    if (number && op->getOperand(i).getType() == op->getResult(0).getType() &&
        (i == 0 || isa<MulOp>(op)))
      return std::pair(i, isa<DivOp>(op) ? 1 / *number : *number);
  }
  return std::nullopt;
}

// Returns the operand that `op` moves or multiplies; null for other ops.
static Value movedOperand(Operation *op) {
  if (isa_and_nonnull<ReshapeOp, TransposeOp, BroadcastOp>(op))
    return op->getOperand(0);
  auto factor = op ? factorOf(op) : std::nullopt;
  return factor ? op->getOperand(factor->first) : Value();
}

static bool apply(Movement &movement, Operation *op) {
  ++movement.ops;
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    SmallVector<Parts, 4> dims;
    for (int64_t dim : transpose.getPermutation())
      dims.push_back(movement.dims[dim]);
    movement.dims = std::move(dims);
    return true;
  }
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  if (isa<BroadcastOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0));
    for (size_t i = 0; i < shape.size(); ++i) {
      bool added = i + from.size() < shape.size();
      if (added)
        movement.dims.insert(movement.dims.begin() + i, contiguousDim(shape[i], 0));
      else if (from[i + from.size() - shape.size()] != shape[i])
        movement.dims[i] = contiguousDim(shape[i], 0);
    }
    return true;
  }
  if (isa<ReshapeOp>(op))
    return regroup(movement.dims, shape);
  movement.factor *= factorOf(op)->second;
  return true;
}

Movement raise::traceMovement(Value value) {
  SmallVector<Operation *> path; // innermost last
  while (Value operand = movedOperand(value.getDefiningOp())) {
    path.push_back(value.getDefiningOp());
    value = operand;
  }
  Movement movement;
  startAt(movement, value);
  for (Operation *op : llvm::reverse(path))
    if (!apply(movement, op))
      startAt(movement, op->getResult(0));
  for (Parts &dim : movement.dims)
    joinParts(dim);
  return movement;
}

int64_t raise::repeatsOf(const Movement &movement, size_t dim) {
  const Parts &parts = movement.dims[dim];
  return !parts.empty() && parts.back().stride == 0 ? parts.back().size : 1;
}

namespace {

// Describes how to rebuild a value from base: split it into `pieces`, permute them by `order`,
// merge them to `shape`.
struct Recipe {
  SmallVector<int64_t> pieces, order, shape;
};

std::optional<Recipe> recipeOf(const Movement &movement, size_t repeated) {
  SmallVector<Part> parts;
  Recipe recipe;
  for (auto [i, dim] : llvm::enumerate(movement.dims)) {
    ArrayRef<Part> own = dim;
    if (i == repeated && repeatsOf(movement, i) > 1)
      own = own.drop_back();
    int64_t size = 1;
    for (Part part : own) {
      if (part.stride == 0)
        return std::nullopt;
      parts.push_back(part);
      size *= part.size;
    }
    recipe.shape.push_back(size);
  }
  SmallVector<size_t> byStride(parts.size());
  std::iota(byStride.begin(), byStride.end(), 0);
  llvm::stable_sort(byStride,
                    [&](size_t a, size_t b) { return parts[a].stride > parts[b].stride; });
  for (size_t i : byStride)
    recipe.pieces.push_back(parts[i].size);
  for (size_t i = 0; i < parts.size(); ++i)
    recipe.order.push_back(llvm::find(byStride, i) - byStride.begin());
  return recipe;
}

} // namespace

// Returns the permutation of base's own dims that `recipe` is, dims of size 1 put where they fit;
// nullopt if a dim is split or merged.
static std::optional<SmallVector<int64_t>> permutationOf(Value base, const Recipe &recipe) {
  ArrayRef<int64_t> from = shapeOf(base);
  SmallVector<int64_t> large, ones, permutation;
  for (auto [dim, size] : llvm::enumerate(from))
    (size == 1 ? ones : large).push_back(dim);
  if (large.size() != recipe.pieces.size() || from.size() != recipe.shape.size())
    return std::nullopt;
  size_t piece = 0, one = 0;
  for (int64_t size : recipe.shape) {
    bool single = size == 1;
    if (single ? one == ones.size() : piece == recipe.order.size())
      return std::nullopt;
    permutation.push_back(single ? ones[one++] : large[recipe.order[piece++]]);
    if (from[permutation.back()] != size)
      return std::nullopt;
  }
  return permutation;
}

int64_t raise::opsToRebuild(const Movement &movement, size_t dim) {
  auto recipe = recipeOf(movement, dim);
  if (!recipe)
    return std::numeric_limits<int64_t>::max();
  if (llvm::is_sorted(recipe->order))
    return shapeOf(movement.base) != ArrayRef<int64_t>(recipe->shape);
  return permutationOf(movement.base, *recipe) ? 1 : 3;
}

Value raise::rebuild(Build &build, const Movement &movement, size_t dim) {
  auto recipe = recipeOf(movement, dim);
  if (!recipe)
    return {};
  Value value = movement.base;
  if (llvm::is_sorted(recipe->order))
    return build.reshape(value, recipe->shape);
  if (auto permutation = permutationOf(value, *recipe))
    return build.transpose(value, *permutation);
  value = build.transpose(build.reshape(value, recipe->pieces), recipe->order);
  return build.reshape(value, recipe->shape);
}

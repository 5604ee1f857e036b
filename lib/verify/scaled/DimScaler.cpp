// Unites dimensions over the factors of sharding rules, and chooses a size for each class.
#include "lib/verify/scaled/DimScaler.h"

#include "dialects/parallel/Annotations.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace llmc::verify {

//===-- Classes -----------------------------------------------------------------===//

unsigned DimScaler::add(int64_t size) {
  unsigned id = size_.size();
  classes_.insert(id);
  size_.push_back(size);
  keep_.push_back(size <= 1);
  ofState_.push_back(false);
  return id;
}

void DimScaler::unite(unsigned a, unsigned b) {
  a = find(a), b = find(b);
  if (a == b)
    return;
  if (size_[a] != size_[b]) { // sizes that differ stand for no common quantity
    keep_[a] = keep_[b] = true;
    return;
  }
  classes_.unionSets(a, b); // the leader of `a` leads
  keep_[a] = keep_[a] || keep_[b];
  ofState_[a] = ofState_[a] || ofState_[b];
}

DimScaler::Dims DimScaler::addAll(Type type) {
  Dims dims;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    for (int64_t size : tensor.getShape())
      dims.push_back(add(size));
  return dims;
}

void DimScaler::keepAll(Value value) {
  for (unsigned dim : values_[value.getAsOpaquePointer()])
    keep(dim);
}

void DimScaler::bind(const Dims &a, const Dims &b) {
  for (auto [x, y] : llvm::zip(a, b))
    unite(x, y);
}

DimScaler::DimScaler(ModuleOp module) {
  for (auto state : module.getOps<graph::StateOp>()) {
    Dims &dims = states_[state.getOperation()] = addAll(state.getType());
    for (auto [i, dim] : llvm::enumerate(dims)) {
      ofState_[dim] = true;
      if (i == 0 && state.getStacked())
        keep(dim);
    }
  }
  auto addValue = [&](Value value) {
    values_[value.getAsOpaquePointer()] = addAll(value.getType());
  };
  module.walk([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), addValue);
    llvm::for_each(op->getResults(), addValue);
  });
  for (auto func : module.getOps<func::FuncOp>())
    for (BlockArgument arg : func.getArguments()) {
      const Dims &own = values_[Value(arg).getAsOpaquePointer()];
      auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), parallel::kState);
      auto state = name ? module.lookupSymbol<graph::StateOp>(name.getAttr()) : graph::StateOp();
      if (state)
        bind(states_[state.getOperation()], own);
      else if (!own.empty()) {
        keep(own.front()); // rows of the batch
        tokens_.insert(tokens_.end(), own.begin() + 1, own.end());
      }
    }
  module.walk([&](Operation *op) { visit(op); });
}

//===-- Ops ---------------------------------------------------------------------===//

bool isNumbers(graph::ConstantOp constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  return isa<FloatType>(type.getElementType()) && isa<DenseElementsAttr>(constant.getValue());
}

void DimScaler::visit(Operation *op) {
  if (isa<ModuleOp, func::FuncOp, func::ReturnOp, graph::StateOp, graph::SourceOp, graph::YieldOp>(op))
    return;
  if (auto repeat = dyn_cast<graph::RepeatOp>(op))
    return visitRepeat(repeat);
  if (auto slice = dyn_cast<graph::SliceOp>(op))
    return visitSlice(slice);
  auto dimsOf = [&](Value value) -> Dims & { return values_[value.getAsOpaquePointer()]; };
  if (auto constant = dyn_cast<graph::ConstantOp>(op);
      constant && !isa<SplatElementsAttr>(constant.getValue()) && !isNumbers(constant))
    keepAll(constant.getResult());
  if (auto tail = dyn_cast<graph::MaskTailOp>(op))
    keep(dimsOf(tail.getResult())[tail.getDim()]);
  if (auto concat = dyn_cast<graph::ConcatOp>(op))
    for (Value value : llvm::concat<Value>(op->getOperands(), op->getResults()))
      keep(dimsOf(value)[concat.getDim()]);
  if (auto rotary = dyn_cast<graph::RotaryOp>(op)) { // its sharding rule does not express pairs
    unsigned dim = dimsOf(rotary.getX()).back(), pairs = dimsOf(rotary.getCos()).back();
    if (size_[dim] == 2 * size_[pairs]) {
      unsigned two = add(2);
      keep(two);
      products_.push_back({dim, {two, pairs}});
    } else {
      keep(dim);
      keep(pairs);
    }
  }
  if (auto route = dyn_cast<graph::RouteOp>(op)) { // who takes what is what is proved
    keep(dimsOf(route.getScores()).back());
    keep(dimsOf(route.getRoutes()).back());
  }
  // Keeps as many experts in what routes choose from: weights, and tables of biases.
  if (auto product = dyn_cast<graph::GroupedMatmulOp>(op))
    keep(dimsOf(product.getWeights()).front());
  if (auto gather = dyn_cast<graph::GatherOp>(op); gather && gather.getIds().getDefiningOp<graph::RouteOp>())
    keep(dimsOf(gather.getTable()).front());
  if (auto pad = dyn_cast<graph::PadOp>(op))
    for (auto [i, dim] : llvm::enumerate(dimsOf(pad.getResult())))
      if (pad.getLow()[i] || pad.getHigh()[i] || pad.getInterior()[i]) {
        keep(dim);
        keep(dimsOf(pad.getOperand())[i]);
      }
  if (auto graphOp = dyn_cast<graph::GraphOpInterface>(op))
    return visitRule(op, graphOp.getShardingRule());
  for (Value value : op->getOperands())
    keepAll(value);
  for (Value value : op->getResults())
    keepAll(value);
}

void DimScaler::visitRepeat(graph::RepeatOp op) {
  auto dimsOf = [&](Value value) -> Dims & { return values_[value.getAsOpaquePointer()]; };
  unsigned carried = op.getCarried().size(), stacked = op.getStacked().size();
  auto layers = [&](Value value, bool isStacked) {
    Dims dims = dimsOf(value);
    if (isStacked) {
      keep(dims.front());
      dims.erase(dims.begin());
    }
    return dims;
  };
  for (BlockArgument arg : op.getBlock().getArguments()) {
    unsigned i = arg.getArgNumber();
    bind(layers(op->getOperand(i), i >= carried && i < carried + stacked), dimsOf(arg));
  }
  Operation *yield = op.getBlock().getTerminator();
  for (OpResult result : op->getResults()) {
    unsigned i = result.getResultNumber();
    bind(layers(result, i >= carried), dimsOf(yield->getOperand(i)));
    if (i < carried)
      bind(dimsOf(result), dimsOf(op->getOperand(i)));
  }
}

// Bounds the prefix of a dimension (the positions that are used): it may have any size that is
// not larger.
void DimScaler::visitSlice(graph::SliceOp op) {
  Dims &from = values_[op.getOperand().getAsOpaquePointer()];
  Dims &to = values_[op.getResult().getAsOpaquePointer()];
  for (size_t i = 0; i < from.size(); ++i) {
    if (size_[from[i]] == size_[to[i]]) {
      unite(from[i], to[i]);
    } else if (op.getStarts()[i] == 0 && op.getSteps()[i] == 1) {
      atLeast_.emplace_back(from[i], to[i]);
    } else {
      keep(from[i]);
      keep(to[i]);
    }
  }
}

void DimScaler::visitRule(Operation *op, const graph::ShardingRule &rule) {
  std::vector<unsigned> ids;
  for (const graph::Factor &factor : rule.factors)
    ids.push_back(add(factor.size));
  auto visitTensor = [&](Value value, const graph::TensorFactors &factors) {
    Dims dims = values_[value.getAsOpaquePointer()];
    for (auto [dim, own] : llvm::zip(dims, factors))
      visitDim(dim, own, ids);
  };
  for (auto [value, factors] : llvm::zip(op->getOperands(), rule.operands))
    visitTensor(value, factors);
  for (auto [value, factors] : llvm::zip(op->getResults(), rule.results))
    visitTensor(value, factors);
}

void DimScaler::visitDim(unsigned dim, const graph::DimFactors &factors,
                          const std::vector<unsigned> &ids) {
  int64_t product = 1;
  for (unsigned factor : factors)
    product *= size_[ids[factor]];
  if (product != size_[dim]) {
    keep(dim);
    for (unsigned factor : factors)
      keep(ids[factor]);
  } else if (factors.size() == 1) {
    unite(dim, ids[factors.front()]);
  } else if (factors.size() > 1) {
    Product &made = products_.emplace_back();
    made.whole = dim;
    for (unsigned factor : factors)
      made.parts.push_back(ids[factor]);
  }
}

// Bounds sizes from below: a norm over fewer elements hardly has a gradient.
constexpr int64_t kLeast = 8;

//===-- Sizes -------------------------------------------------------------------===//

// Returns the least size that is congruent to n modulo `divisor` and at least `least`, but at
// most n.
static int64_t congruent(int64_t n, int64_t divisor, int64_t least) {
  int64_t size = n % divisor;
  while (size < least)
    size += divisor;
  return std::min(size, n);
}

void DimScaler::shrink(int64_t divisor, int64_t kept, bool fewTokens) {
  kept_ = kept;
  fewTokens_ = fewTokens;
  for (unsigned id = 0; id < size_.size(); ++id)
    if (find(id) == id && size_[id] <= kept)
      keep_[id] = true;
  while (!choose(divisor)) {
  }
  for (unsigned id = 0; id < size_.size(); ++id)
    if (find(id) == id && new_[id] != size_[id]) {
      auto &list = changes_[size_[id]];
      if (!llvm::is_contained(list, new_[id]))
        list.push_back(new_[id]);
    }
}

// Chooses all sizes. Returns false if two products contradict each other; their factors are kept
// from then on.
bool DimScaler::choose(int64_t divisor) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Product &product : products_)
      if (keep_[find(product.whole)])
        for (unsigned part : product.parts)
          if (!keep_[find(part)])
            keep_[find(part)] = changed = true;
  }
  new_.assign(size_.size(), 0);
  for (unsigned id = 0; id < size_.size(); ++id)
    if (find(id) == id && keep_[id])
      new_[id] = size_[id];
  chooseFactors(divisor);
  if (!computeProducts())
    return false;
  chooseRest(divisor);
  raiseBounds(divisor);
  return true;
}

void DimScaler::chooseFactors(int64_t divisor) {
  std::map<unsigned, bool> outer, whole; // is it a first factor; is it a product itself
  for (const Product &product : products_) {
    whole[find(product.whole)] = true;
    for (size_t i = 0; i < product.parts.size(); ++i)
      outer[find(product.parts[i])] |= i == 0;
  }
  for (auto [id, first] : outer)
    if (!whole.count(id) && !new_[id]) {
      bool inner = !first && !ofState_[id];
      new_[id] = inner ? std::min(size_[id], std::max<int64_t>(2, kLeast / divisor) + size_[id] % 2)
                       : congruent(size_[id], divisor, 2 * divisor);
    }
}

bool DimScaler::computeProducts() {
  for (size_t round = 0; round <= products_.size(); ++round) {
    bool open = false;
    for (const Product &product : products_) {
      int64_t value = 1;
      for (unsigned part : product.parts)
        value *= new_[find(part)];
      int64_t &known = new_[find(product.whole)];
      open |= value == 0;
      if (value == 0 || known == value)
        continue;
      if (known == 0) {
        known = value;
        continue;
      }
      for (unsigned part : product.parts)
        keep(part);
      keep(product.whole);
      return false;
    }
    if (!open)
      return true;
  }
  for (const Product &product : products_) // One is a factor of itself.
    keep(product.whole);
  return false;
}

// Returns whether sizes that differ, whole or divided, would become equal: ops over equal
// iteration spaces share kernels.
static bool meets(std::pair<int64_t, int64_t> a, std::pair<int64_t, int64_t> b, int64_t divisor) {
  for (int64_t p : {int64_t(1), divisor})
    for (int64_t q : {int64_t(1), divisor})
      if (a.second % p == 0 && b.second % q == 0 && a.second / p == b.second / q &&
          a.first * q != b.first * p)
        return true;
  return false;
}

void DimScaler::chooseRest(int64_t divisor) {
  constexpr int tries = 16;
  std::map<int64_t, int64_t> chosen; // of the sizes chosen so far: old -> new
  std::set<std::pair<int64_t, int64_t>> fixed; // old, new
  std::vector<unsigned> rest;
  for (unsigned id = 0; id < size_.size(); ++id)
    if (find(id) == id && new_[id] > 1)
      fixed.insert({size_[id], new_[id]});
  for (const Product &product : products_)
    if (unsigned id = find(product.whole); !keep_[id])
      chosen[size_[id]] = new_[id];
  for (unsigned id = 0; id < size_.size(); ++id)
    if (find(id) == id && !new_[id])
      rest.push_back(id);
    else if (find(id) == id && size_[id] <= kept_) // so that larger ones stay larger
      chosen[size_[id]] = size_[id];
  llvm::stable_sort(rest, [&](unsigned a, unsigned b) { return size_[a] < size_[b]; });
  std::set<unsigned> tokens;
  if (fewTokens_)
    for (unsigned id : tokens_)
      tokens.insert(find(id));
  // Returns the least size that is at least `least` and does not meet another one.
  auto leastOf = [&](int64_t n, int64_t least) {
    int64_t size = congruent(n, divisor, least);
    auto clash = [&](const auto &other) { return meets({n, size}, other, divisor); };
    for (int i = 0; i < tries && size < n && llvm::any_of(fixed, clash); ++i)
      size = congruent(n, divisor, size + 1);
    return std::min(size, n);
  };
  for (unsigned id : rest) {
    int64_t n = size_[id], least = std::max(kLeast, 2 * divisor);
    if (tokens.count(id)) {
      fixed.insert({n, new_[id] = leastOf(n, least)});
      continue;
    }
    auto equal = chosen.find(n);
    if (equal != chosen.end() && equal->second % divisor == n % divisor) {
      new_[id] = equal->second;
      continue;
    }
    auto above = chosen.lower_bound(n);
    if (above != chosen.begin())
      least = std::max(least, std::prev(above)->second + 1);
    chosen.emplace(n, new_[id] = leastOf(n, least));
  }
}

void DimScaler::raiseBounds(int64_t divisor) {
  for (auto [whole, part] : atLeast_) {
    unsigned id = find(whole);
    if (new_[id] < new_[find(part)])
      new_[id] = congruent(size_[id], divisor, new_[find(part)]);
  }
}

std::vector<int64_t> DimScaler::shapeOf(Value value) const {
  std::vector<int64_t> shape;
  auto found = values_.find(value.getAsOpaquePointer());
  if (found != values_.end())
    for (unsigned dim : found->second)
      shape.push_back(new_[find(dim)]);
  return shape;
}

std::vector<int64_t> DimScaler::shapeOf(graph::StateOp state) const {
  std::vector<int64_t> shape;
  for (unsigned dim : states_.at(state.getOperation()))
    shape.push_back(new_[find(dim)]);
  return shape;
}

} // namespace llmc::verify

#include "test/passes/1-raise/Models.h"

#include "dialects/graph/Equation.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::test;

namespace {

class Decoder {
public:
  Decoder(MLIRContext &context, const Spec &spec)
      : spec(spec), builder(&context), b(builder, builder.getUnknownLoc()),
        element(spec.f64 ? Type(builder.getF64Type()) : Type(builder.getF32Type())) {
    module = ModuleOp::create(b.loc);
    b3 = {spec.batch, spec.sequence, spec.width()};
    rows = {spec.batch * spec.sequence, spec.width()};
  }

  OwningOpRef<ModuleOp> build() {
    builder.setInsertionPointToEnd(module->getBody());
    auto ids = RankedTensorType::get({spec.batch, spec.sequence}, builder.getI64Type());
    func = func::FuncOp::create(builder, b.loc, "forward", builder.getFunctionType({ids}, {}));
    func.setArgAttr(0, "graph.input", builder.getStringAttr("input_ids"));
    Block *block = func.addEntryBlock();
    builder.setInsertionPointToEnd(block);

    Value table = parameter("table", {spec.vocabulary, spec.width()});
    Value h = b.add(GatherOp::create(builder, b.loc, type(b3), table, func.getArgument(0), Value()),
                    positions());
    for (layer = 0; layer < spec.layers; ++layer)
      h = block_(h);
    layer = -1;
    Value logits = head(norm(h, "final"), table);
    func::ReturnOp::create(builder, b.loc, logits);
    func.setType(builder.getFunctionType(func.getArgumentTypes(), logits.getType()));
    func.setResultAttr(0, "graph.output", builder.getStringAttr("logits"));
    return std::move(module);
  }

private:
  RankedTensorType type(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, element); }
  Value scalar(double value) { return b.constant(value, element); }
  std::string named(StringRef name) {
    return layer < 0 ? name.str() : ("layer" + Twine(layer) + "." + name).str();
  }

  // An argument on a source that is declared with its first use.
  Value view(StringRef source, ArrayRef<int64_t> sourceShape, ArrayRef<int64_t> shape,
             int64_t offset, ArrayRef<int64_t> strides) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(func);
    auto *context = builder.getContext();
    if (!module->lookupSymbol(source)) {
      auto init = InitKindAttr::get(context, InitKind::zeros);
      SourceOp::create(builder, b.loc, builder.getStringAttr(source),
                       TypeAttr::get(type(sourceShape)), builder.getStrArrayAttr({}), IntegerAttr(),
                       IntegerAttr(), init, FloatAttr());
    }
    std::string name = "p" + std::to_string(func.getNumArguments());
    auto attr = ViewAttr::get(context, FlatSymbolRefAttr::get(context, source), offset, strides);
    StateOp::create(builder, b.loc, builder.getStringAttr(name), TypeAttr::get(type(shape)),
                    RoleAttr::get(context, Role::parameter), FlatSymbolRefAttr(),
                    builder.getArrayAttr({attr}), UnitAttr(), ArrayAttr());
    auto attrs = builder.getDictionaryAttr(
        builder.getNamedAttr("graph.state", FlatSymbolRefAttr::get(context, name)));
    (void)func.insertArgument(func.getNumArguments(), type(shape), attrs, b.loc);
    return func.getArguments().back();
  }
  Value parameter(StringRef name, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;)
      strides[i - 1] = strides[i] * shape[i];
    return view(named(name), shape, shape, 0, strides);
  }
  // A weight [in, out], however it lies.
  Value weight(StringRef name, int64_t in, int64_t out) {
    if (spec.weightsOutFirst)
      return b.transpose(parameter(name, {out, in}), {1, 0});
    return parameter(name, {in, out});
  }

  //===-- Blocks ------------------------------------------------------------===//

  Value positions() {
    Value table = parameter("positions", {spec.context, spec.width()});
    if (spec.style == Style::Plain)
      return b.slice(table, 0, 0, spec.sequence);
    Tensor ids({spec.style == Style::Spelt ? spec.batch : 1, spec.sequence});
    for (int64_t i = 0; i < ids.size(); ++i)
      ids.data[i] = i % spec.sequence;
    SmallVector<int64_t> values(ids.data.begin(), ids.data.end());
    auto idType = RankedTensorType::get(ids.shape, builder.getI64Type());
    Value constant = ConstantOp::create(builder, b.loc, idType,
                                        DenseElementsAttr::get(idType, ArrayRef<int64_t>(values)));
    return GatherOp::create(builder, b.loc, type({ids.shape[0], spec.sequence, spec.width()}),
                            table, constant, Value());
  }

  Value mean(Value x) { // keeps the last dim as 1
    SmallVector<int64_t> shape(shapeOf(x));
    Value sum = b.reduce(x, ReduceKind::sum, {int64_t(shape.size()) - 1});
    Value result = b.div(sum, scalar(shape.back()));
    shape.back() = 1;
    return b.reshape(result, shape);
  }

  Value norm(Value x, StringRef name) {
    Value scale = parameter((name + ".scale").str(), {spec.width()});
    Value bias = parameter((name + ".bias").str(), {spec.width()});
    if (spec.style == Style::Spelt) {
      Value centred = b.sub(x, mean(x));
      Value squares = PowOp::create(builder, b.loc, centred, APFloat(2.0));
      Value deviation = SqrtOp::create(builder, b.loc, b.add(mean(squares), scalar(1e-5)));
      return b.add(b.mul(b.div(centred, deviation), scale), bias);
    }
    auto perRow = type({spec.batch, spec.sequence});
    return LayerNormOp::create(builder, b.loc, TypeRange{x.getType(), perRow, perRow}, x, scale,
                               bias, builder.getF64FloatAttr(1e-5))
        .getY();
  }

  Value dense(Value x, Value w, Value bias) {
    if (spec.style == Style::Plain)
      return b.add(b.matmul("bsd,de->bse", x, w, element), bias);
    SmallVector<int64_t> shape(shapeOf(x));
    Value flat = b.reshape(x, {shape[0] * shape[1], shape[2]});
    Value y = b.add(b.matmul("xy,yz->xz", flat, w, element), bias);
    return b.reshape(y, {shape[0], shape[1], shapeOf(w)[1]});
  }
  Value dense(Value x, StringRef name, int64_t out) {
    int64_t in = shapeOf(x).back();
    Value w = weight((name + ".weight").str(), in, out);
    return dense(x, w, parameter((name + ".bias").str(), {out}));
  }

  Value gelu(Value x) {
    if (spec.style == Style::Plain)
      return GeluOp::create(builder, b.loc, x.getType(), x, GeluForm::tanh);
    Value cube = PowOp::create(builder, b.loc, x, APFloat(3.0));
    Value inner = b.mul(b.add(x, b.mul(cube, scalar(0.044715))), scalar(std::sqrt(2 / M_PI)));
    Value one = b.add(TanhOp::create(builder, b.loc, inner), scalar(1));
    return b.mul(b.mul(x, scalar(0.5)), one);
  }

  // q, k, v as [b, s, width].
  std::array<Value, 3> projections(Value x) {
    int64_t width = spec.width();
    std::array<Value, 3> result;
    if (!spec.fused) {
      for (int i : {0, 1, 2}) // columns of the source that the fused weight is
        result[i] = dense(x,
                          view(named("qkv.weight"), {width, 3 * width}, {width, width}, i * width,
                               {3 * width, 1}),
                          view(named("qkv.bias"), {3 * width}, {width}, i * width, {1}));
      return result;
    }
    Value all = dense(x, "qkv", 3 * width);
    for (int i : {0, 1, 2})
      result[i] = b.slice(all, 2, i * width, (i + 1) * width);
    return result;
  }

  Value causalMask(bool chosen) {
    int64_t s = spec.sequence, batch = chosen ? spec.batch : 1;
    auto shape =
        RankedTensorType::get({batch, 1, s, s}, chosen ? Type(builder.getI1Type()) : element);
    SmallVector<bool> seen;
    SmallVector<APFloat> added;
    for (int64_t i = 0; i < batch * s * s; ++i) {
      bool see = i % s <= i / s % s;
      seen.push_back(see);
      added.push_back(spec.f64 ? APFloat(see ? 0.0 : -1e300) : APFloat(see ? 0.0f : -3.4e38f));
    }
    auto value =
        chosen ? DenseElementsAttr::get(shape, seen) : DenseElementsAttr::get(shape, added);
    return ConstantOp::create(builder, b.loc, shape, value);
  }

  Value attention(Value x) {
    int64_t s = spec.sequence, h = spec.heads, d = spec.headDim, n = spec.batch;
    auto [q, k, v] = projections(x);
    q = b.reshape(q, {n, s, h, d});
    k = b.reshape(k, {n, s, h, d});
    v = b.reshape(v, {n, s, h, d});
    double scale = 1 / std::sqrt(double(d));
    if (spec.style == Style::Plain) {
      auto o = AttentionOp::create(builder, b.loc, TypeRange{q.getType(), type({n, s, h})}, q, k, v,
                                   builder.getF64FloatAttr(scale), builder.getBoolAttr(true));
      return b.reshape(o.getO(), b3);
    }
    q = b.transpose(q, {0, 2, 1, 3});
    v = b.transpose(v, {0, 2, 1, 3});
    Value scores;
    if (spec.style == Style::Flattening) {
      k = b.reshape(b.transpose(k, {0, 2, 1, 3}), {n * h, s, d});
      k = b.reshape(b.transpose(k, {0, 2, 1}), {n, h, d, s});
      scores = b.matmul("abxy,abyz->abxz", b.mul(q, scalar(std::sqrt(scale))),
                        b.mul(k, scalar(std::sqrt(scale))), element);
      scores = b.add(scores, causalMask(false));
    } else {
      k = b.transpose(k, {0, 2, 3, 1});
      scores = b.div(b.matmul("abxy,abyz->abxz", q, k, element), scalar(1 / scale));
      scores = b.select(causalMask(true), scores, scalar(-std::numeric_limits<float>::infinity()));
    }
    Value weights = SoftmaxOp::create(builder, b.loc, scores.getType(), scores);
    if (spec.style == Style::Flattening) {
      Value nan = b.compare(weights, weights, Predicate::ne);
      weights = b.select(nan, scalar(0), weights);
    }
    Value o = b.matmul("abxy,abyz->abxz", weights, v, element);
    o = b.transpose(o, {0, 2, 1, 3});
    return b.reshape(o, spec.style == Style::Flattening ? rows : b3);
  }

  Value block_(Value h) {
    Value mixed = attention(norm(h, "ln_1"));
    if (shapeOf(mixed).size() == 2) { // straight from heads to rows
      Value w = weight("proj.weight", spec.width(), spec.width());
      mixed =
          b.add(b.matmul("xy,yz->xz", mixed, w, element), parameter("proj.bias", {spec.width()}));
      h = b.add(b.reshape(mixed, b3), h);
    } else {
      h = b.add(h, dense(mixed, "proj", spec.width()));
    }
    Value up = gelu(dense(norm(h, "ln_2"), "up", 4 * spec.width()));
    return b.add(h, dense(up, "down", spec.width()));
  }

  Value head(Value x, Value table) {
    if (!spec.headTransposed)
      return b.matmul("bsd,vd->bsv", x, table, element);
    Value w = view("table", {spec.vocabulary, spec.width()}, {spec.width(), spec.vocabulary}, 0,
                   {1, spec.width()});
    return b.matmul("axy,yz->axz", x, w, element);
  }

  Spec spec;
  OpBuilder builder;
  Build b;
  Type element;
  OwningOpRef<ModuleOp> module;
  func::FuncOp func;
  int64_t layer = -1;
  SmallVector<int64_t> b3, rows;
};

} // namespace

void test::loadDialects(MLIRContext &context) {
  context.loadDialect<func::FuncDialect, GraphDialect>();
}

OwningOpRef<ModuleOp> test::buildDecoder(MLIRContext &context, const Spec &spec) {
  loadDialects(context);
  return Decoder(context, spec).build();
}

OwningOpRef<ModuleOp> test::parse(MLIRContext &context, StringRef text) {
  loadDialects(context);
  return parseSourceString<ModuleOp>(text, &context);
}

//===-- Disguises -----------------------------------------------------------===//

static void renameSymbols(ModuleOp module, std::mt19937 &random) {
  SymbolTable symbols(module);
  SmallVector<Operation *> ops;
  for (Operation &op : *module.getBody())
    if (isa<SourceOp, StateOp>(op))
      ops.push_back(&op);
  std::shuffle(ops.begin(), ops.end(), random);
  // Sources are only named inside views, which no symbol use walks into.
  llvm::DenseMap<StringAttr, StringAttr> renamed;
  Builder builder(module.getContext());
  for (auto [i, op] : llvm::enumerate(ops)) {
    auto fresh = builder.getStringAttr("x" + Twine(random() % 1000) + "_" + Twine(i));
    renamed[SymbolTable::getSymbolName(op)] = fresh;
    SymbolTable::setSymbolName(op, fresh);
  }
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FlatSymbolRefAttr name) -> std::optional<Attribute> {
    auto found = renamed.find(name.getAttr());
    return found == renamed.end() ? name : FlatSymbolRefAttr::get(found->second);
  });
  module.walk([&](Operation *op) {
    replacer.replaceElementsIn(op);
    op->setLoc(NameLoc::get(builder.getStringAttr("n" + Twine(random() % 100000))));
  });
}

static void shuffleOps(func::FuncOp func, std::mt19937 &random) {
  Block &block = func.getBody().front();
  SmallVector<Operation *> left;
  for (Operation &op : block.without_terminator())
    left.push_back(&op);
  llvm::DenseSet<Operation *> done;
  while (!left.empty()) {
    SmallVector<size_t> ready;
    for (auto [i, op] : llvm::enumerate(left))
      if (llvm::all_of(op->getOperands(), [&](Value operand) {
            return !operand.getDefiningOp() || done.contains(operand.getDefiningOp());
          }))
        ready.push_back(i);
    size_t chosen = ready[random() % ready.size()];
    left[chosen]->moveBefore(block.getTerminator());
    done.insert(left[chosen]);
    left.erase(left.begin() + chosen);
  }
}

static void renameLetters(Equation &equation, std::mt19937 &random) {
  std::string letters = "abcdefghijklmnopqrstuvwxyz";
  std::shuffle(letters.begin(), letters.end(), random);
  for (std::string *part : {&equation.lhs, &equation.rhs, &equation.result})
    for (char &c : *part)
      c = letters[c - 'a'];
}

static void exchangeOperands(func::FuncOp func, std::mt19937 &random) {
  func.walk([&](Operation *op) {
    if (!isa<AddOp, MulOp, AndOp, OrOp, MatmulOp>(op))
      return;
    bool exchange = random() % 2;
    if (exchange)
      op->setOperands({op->getOperand(1), op->getOperand(0)});
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      Equation equation = *Equation::parse(matmul.getEquation());
      if (exchange)
        std::swap(equation.lhs, equation.rhs);
      renameLetters(equation, random);
      matmul.setEquation(equation.str());
    }
  });
}

static void permuteArguments(func::FuncOp func, std::mt19937 &random) {
  unsigned count = func.getNumArguments();
  SmallVector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (unsigned i : order) {
    BlockArgument old = func.getArgument(i);
    (void)func.insertArgument(func.getNumArguments(), old.getType(), func.getArgAttrDict(i),
                              old.getLoc());
    old.replaceAllUsesWith(func.getArguments().back());
  }
  BitVector erased(func.getNumArguments());
  erased.set(0, count);
  (void)func.eraseArguments(erased);
}

void test::disguise(ModuleOp module, std::mt19937 &random) {
  auto func = *module.getOps<func::FuncOp>().begin();
  renameSymbols(module, random);
  shuffleOps(func, random);
  exchangeOperands(func, random);
  permuteArguments(func, random);
}

// Recognises an activation by its values, not by one of its many spellings: around every tanh, erf
// and exp, each expression of one value is sampled and compared.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Passes.h"

#include "mlir/Transforms/RegionUtils.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISEACTIVATIONS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

static constexpr int64_t kPoints = 513;
static constexpr double kRange = 12, kTolerance = 1e-6;
static constexpr size_t kReach = 12; // ops above and below a tanh, erf or exp

// Holds the constants of a GELU as an exporter may write them.
struct GeluConstants {
  double half, cubic, outer; // 1/sqrt(2), 0.044715 and sqrt(2/pi)
};

// Rounds the constants to the nearest numbers of a format.
static GeluConstants constantsOf(const llvm::fltSemantics &format, bool divides) {
  auto round = [&](double value) {
    APFloat number(value);
    bool loses;
    number.convert(format, APFloat::rmNearestTiesToEven, &loses);
    return number.convertToDouble();
  };
  return {divides ? 1 / round(std::numbers::sqrt2) : round(1 / std::numbers::sqrt2), round(0.044715),
          round(std::sqrt(2 / std::numbers::pi))};
}

static double gelu(double x, GeluForm form, const GeluConstants &c) {
  double inner = form == GeluForm::erf ? std::erf(x * c.half)
                                       : std::tanh(c.outer * (x + c.cubic * x * x * x));
  return 0.5 * x * (1 + inner);
}

static Tensor samples() {
  Tensor x({kPoints});
  for (int64_t i = 0; i < kPoints; ++i)
    x.data[i] = kRange * (2.0 * i / (kPoints - 1) - 1);
  return x;
}

// Returns the values of `y` as a function of `x` alone at the sample points; nullopt if `y` depends
// on anything else than `x` and scalars.
static std::optional<Tensor> sample(Value y, Value x) {
  llvm::DenseMap<Value, Tensor> known;
  known[x] = samples();
  std::function<bool(Value)> compute = [&](Value value) -> bool {
    if (known.count(value))
      return true;
    if (auto number = scalarOf(value)) {
      known[value] = Tensor(std::vector<int64_t>{});
      known[value].data[0] = *number;
      return true;
    }
    Operation *op = value.getDefiningOp();
    if (!isElementwise(op) || value.getType() != x.getType() || known.size() > 4 * kReach)
      return false;
    for (Value operand : op->getOperands())
      if (!compute(operand))
        return false;
    SmallVector<const Tensor *> inputs;
    for (Value operand : op->getOperands())
      inputs.push_back(&known[operand]);
    Tensor output({kPoints});
    cast<GraphOpInterface>(op).evaluate(inputs, output);
    known[value] = std::move(output);
    return true;
  };
  if (!compute(y) || known[y].size() != kPoints)
    return std::nullopt;
  return known[y];
}

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

namespace {

struct Activation {
  double (*function)(double);
  Value (*build)(OpBuilder &, Location, Value);
};

const llvm::fltSemantics &exact() { return APFloat::IEEEdouble(); }
template <GeluForm form, const llvm::fltSemantics &(*format)(), bool divides = false>
double geluOf(double x) {
  static const GeluConstants constants = constantsOf(format(), divides);
  return gelu(x, form, constants);
}
template <GeluForm form> Value buildGelu(OpBuilder &builder, Location loc, Value x) {
  return GeluOp::create(builder, loc, x.getType(), x, form);
}
Value buildSigmoid(OpBuilder &builder, Location loc, Value x) {
  return SigmoidOp::create(builder, loc, x.getType(), x);
}
Value buildSilu(OpBuilder &builder, Location loc, Value x) {
  return MulOp::create(builder, loc, x.getType(), x, buildSigmoid(builder, loc, x));
}

// Lists activations by priority: a sigmoid may be inside the ones before it. A file of 16 bits
// rounds the constants of a formula that its framework computed in float32, so it means the exact
// formula.
const Activation activations[] = {
    {geluOf<GeluForm::tanh, exact>, buildGelu<GeluForm::tanh>},
    {geluOf<GeluForm::tanh, APFloat::IEEEhalf>, buildGelu<GeluForm::tanh>},
    {geluOf<GeluForm::tanh, APFloat::BFloat>, buildGelu<GeluForm::tanh>},
    {geluOf<GeluForm::erf, exact>, buildGelu<GeluForm::erf>},
    {geluOf<GeluForm::erf, APFloat::IEEEhalf>, buildGelu<GeluForm::erf>},
    {geluOf<GeluForm::erf, APFloat::IEEEhalf, true>, buildGelu<GeluForm::erf>},
    {geluOf<GeluForm::erf, APFloat::BFloat>, buildGelu<GeluForm::erf>},
    {geluOf<GeluForm::erf, APFloat::BFloat, true>, buildGelu<GeluForm::erf>},
    {sigmoid, buildSigmoid},
    {[](double x) { return x * sigmoid(x); }, buildSilu},
};

} // namespace

static bool computes(const Tensor &y, const Activation &activation) {
  Tensor x = samples();
  for (int64_t i = 0; i < kPoints; ++i)
    if (!(std::abs(y.data[i] - activation.function(x.data[i])) <=
          kTolerance * (1 + std::abs(x.data[i]))))
      return false;
  return true;
}

// Returns the elementwise neighbourhood of `core` in one direction, nearest first.
template <typename Next> static SmallVector<Value> reach(Value core, Next next) {
  llvm::SetVector<Value> found;
  found.insert(core);
  for (size_t i = 0; i < found.size() && found.size() < kReach; ++i)
    next(found[i], found);
  return found.takeVector();
}

static SmallVector<Value> valuesAbove(Value core) {
  return reach(core, [&](Value value, auto &found) {
    if (Operation *op = value.getDefiningOp(); isElementwise(op))
      for (Value operand : op->getOperands())
        if (operand.getType() == core.getType() && !scalarOf(operand))
          found.insert(operand);
  });
}

static SmallVector<Value> valuesBelow(Value core) {
  return reach(core, [&](Value value, auto &found) {
    for (Operation *user : value.getUsers())
      if (isElementwise(user) && user->getResult(0).getType() == core.getType())
        found.insert(user->getResult(0));
  });
}

static bool raiseAround(Value core, const Activation &activation) {
  SmallVector<Value> above = valuesAbove(core);
  for (Value y : valuesBelow(core))
    for (Value x : above) {
      if (x == core || x == y || y.use_empty())
        continue;
      auto values = sample(y, x);
      if (!values || !computes(*values, activation))
        continue;
      OpBuilder builder(y.getDefiningOp());
      y.replaceAllUsesWith(activation.build(builder, y.getLoc(), x));
      return true;
    }
  return false;
}

namespace {

struct RaiseActivations : llmc::impl::RaiseActivationsBase<RaiseActivations> {
  void runOnOperation() override {
    SmallVector<Value> cores;
    getOperation().walk([&](Operation *op) {
      if (isa<TanhOp, ErfOp, ExpOp>(op))
        cores.push_back(op->getResult(0));
    });
    for (Value core : cores)
      numRaised += llvm::any_of(
          activations, [&](const Activation &activation) { return raiseAround(core, activation); });
    // Erase only now: what one core leaves behind may be another core.
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, getOperation()->getRegions());
  }
};

} // namespace

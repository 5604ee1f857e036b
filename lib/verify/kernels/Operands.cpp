// Derives a rule for each operand from the uses of its block argument, and draws numbers by it.
#include "lib/verify/kernels/Operands.h"

#include "dialects/graph/Build.h"
#include "lib/support/ElementType.h"
#include "runtime/states/Random.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace llmc::verify {

using Kind = OperandRule::Kind;

std::string_view toString(NumberRegime regime) {
  switch (regime) {
  case NumberRegime::Usual:
    return "usual";
  case NumberRegime::Large:
    return "large";
  case NumberRegime::Tiny:
    return "tiny";
  case NumberRegime::Equal:
    return "equal";
  case NumberRegime::Masked:
    return "masked";
  case NumberRegime::Outliers:
    return "outliers";
  }
  return "";
}

bool OperandRule::isMask() const {
  return kind == Kind::Truth || kind == Kind::Mask || kind == Kind::MaskedNumber ||
         (kind == Kind::Index && !ignored.empty());
}

//===-- Rules ---------------------------------------------------------------===//

namespace {

// Derives the rule of one argument from its uses, through ops that pass its elements on.
class UseReader {
public:
  UseReader(OperandRule &rule, llvm::function_ref<int64_t(Value)> scalarOf)
      : rule(rule), scalarOf(scalarOf) {}
  void read(Value value);

private:
  void readUse(OpOperand &use);
  void index(int64_t rows, Value offset) {
    rule.kind = Kind::Index;
    int64_t first = offset ? scalarOf(offset) : 0;
    // Draw some indices of other ranks' shards, if the table is sharded.
    int64_t around = offset ? std::max<int64_t>(rows / 8, 1) : 0;
    rule.low = std::max<int64_t>(0, first - around);
    rule.high = first + rows + around;
  }
  // Draws numbers of `count` experts, ranks or rows, and some that are none.
  void number(int64_t count) {
    rule.kind = Kind::Index;
    rule.low = -1, rule.high = count + 1;
  }
  void route(Operation *op, unsigned operand);
  void fixed(double value) {
    rule.kind = Kind::Fixed;
    rule.value = value;
  }
  // Draws keys of dropout that fill as many bits as the loader's.
  void dropoutKey() {
    rule.kind = Kind::Index;
    rule.high = int64_t(1) << 53;
  }
  void optimizer(unsigned operand);
  // Reads a use as operand `further` behind those that every attention has.
  template <typename Op> void attentionOperand(Op op, int64_t further) {
    int64_t places = op.hasMask(), draws = places + op.getPositions().size();
    if (further == 0 && op.hasMask() && rule.kind == Kind::Number)
      rule.kind = Kind::Mask;
    else if (further >= places && further < draws)
      index(std::max(graph::shapeOf(op.getQ())[1], graph::shapeOf(op.getK())[1]), Value());
    else if (further == draws)
      dropoutKey();
  }

  OperandRule &rule;
  llvm::function_ref<int64_t(Value)> scalarOf;
  llvm::DenseSet<Value> seen;
};

} // namespace

// Returns whether an op passes an operand's elements on, each as it is or nearly so.
static bool handsOn(Operation *op) {
  return isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::BroadcastOp,
             graph::ConcatOp, graph::PadOp, graph::MaskTailOp, graph::CastOp>(op);
}

void UseReader::optimizer(unsigned operand) {
  static const double values[] = {3e-4, 0.9, 0.95, 1e-8, 0.1, 0.271, 0.1426};
  if (operand == 3)
    rule.kind = Kind::Positive;
  else if (operand >= 4)
    fixed(values[operand - 4]);
}

// Reads a use by an op that works on routes, or moves rows by them.
void UseReader::route(Operation *op, unsigned operand) {
  auto sizeOf = [](Value value) { return graph::typeOf(value).getNumElements(); };
  if (auto limit = dyn_cast<graph::LimitRoutesOp>(op))
    number(limit.getExperts());
  else if (auto sort = dyn_cast<graph::SortRoutesOp>(op))
    number(sort.getExperts());
  else if (auto count = dyn_cast<graph::CountSourcesOp>(op))
    number(sizeOf(count.getCounts()));
  else if (isa<graph::PackRowsOp, graph::UnpackRowsOp>(op) && operand == 1)
    number(sizeOf(op->getOperand(1)));
  else if (auto arrive = dyn_cast<graph::ArrivedRoutesOp>(op); arrive && operand == 1) // of as many as have room
    number(2 * sizeOf(arrive.getSorted()) / std::max<int64_t>(1, sizeOf(arrive.getCounts())));
}

void UseReader::readUse(OpOperand &use) {
  Operation *op = use.getOwner();
  unsigned operand = use.getOperandNumber();
  if (auto gather = dyn_cast<graph::GatherOp>(op)) {
    if (operand == 1)
      index(graph::shapeOf(gather.getTable())[0], gather.getOffset());
  } else if (auto scatter = dyn_cast<graph::ScatterAddOp>(op)) {
    if (operand == 0)
      index(graph::shapeOf(scatter.getResult())[0], scatter.getOffset());
  } else if (auto take = dyn_cast<graph::TakeAlongOp>(op)) {
    if (operand == 1)
      index(graph::shapeOf(take.getOperand()).back(), take.getOffset());
  } else if (auto hot = dyn_cast<graph::OneHotOp>(op)) {
    if (operand == 0)
      index(graph::shapeOf(hot.getResult()).back(), hot.getOffset());
  } else if (auto compare = dyn_cast<graph::CompareOp>(op)) {
    auto constant = op->getOperand(1 - operand).getDefiningOp<graph::ConstantOp>();
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : nullptr;
    if (splat && isa<IntegerType>(splat.getElementType()))
      rule.ignored.push_back(double(splat.getSplatValue<APInt>().getSExtValue()));
  } else if (isa<graph::AdamWOp>(op)) {
    optimizer(operand);
  } else if (isa<graph::SqrtOp, graph::RsqrtOp, graph::LogOp, graph::PowOp>(op) ||
             (isa<graph::LayerNormGradOp>(op) && operand == 4) ||
             (isa<graph::LayerNormGradScaleOp, graph::RmsNormGradOp>(op) && operand == 3) ||
             (isa<graph::RmsNormGradScaleOp>(op) && operand == 2)) {
    rule.kind = Kind::Positive;
  } else if (isa<graph::DropoutOp>(op)) {
    if (operand == 1)
      dropoutKey();
  } else if (auto attention = dyn_cast<graph::AttentionOp>(op)) {
    attentionOperand(attention, operand - 3);
  } else if (auto gradient = dyn_cast<graph::AttentionGradOp>(op)) {
    attentionOperand(gradient, operand - 6);
  } else if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
    if (reduce.getKind() == graph::ReduceKind::max && rule.kind == Kind::Number)
      rule.kind = Kind::MaskedNumber;
    else if (reduce.getKind() == graph::ReduceKind::sum) // partial sums of a sum of squares
      read(op->getResult(0));
  } else if (isa<graph::SoftmaxOp>(op)) {
    if (rule.kind == Kind::Number)
      rule.kind = Kind::MaskedNumber;
  } else if (handsOn(op) || isa<graph::AddOp>(op) || (isa<graph::SelectOp>(op) && operand > 0)) {
    read(op->getResult(0));
  } else if (isa<graph::MulOp>(op) && op->getOperand(1 - operand).getDefiningOp<graph::ConstantOp>()) {
    read(op->getResult(0));
  } else {
    route(op, operand);
  }
}

void UseReader::read(Value value) {
  if (!seen.insert(value).second)
    return;
  for (OpOperand &use : value.getUses())
    readUse(use);
}

std::vector<OperandRule> rulesOf(Block &body, unsigned reads, ArrayRef<int64_t> scalars) {
  std::vector<OperandRule> rules(reads);
  auto scalarOf = [&](Value value) -> int64_t {
    auto argument = dyn_cast<BlockArgument>(value);
    unsigned i = argument ? argument.getArgNumber() - reads : ~0u;
    return i < scalars.size() ? scalars[i] : 0;
  };
  for (unsigned i = 0; i < reads; ++i) {
    Value argument = body.getArgument(i);
    UseReader(rules[i], scalarOf).read(argument);
    if (graph::elementOf(argument).isInteger(1))
      rules[i].kind = Kind::Truth;
    else if (!graph::isFloat(argument))
      rules[i].kind = Kind::Index;
  }
  // Choose the smallest of several tensors that are added to softmax rows as the mask.
  auto smallest = rules.end();
  size_t terms = 0;
  for (auto at = rules.begin(); at != rules.end(); ++at) {
    if (at->kind != Kind::MaskedNumber)
      continue;
    ++terms;
    auto size = [&](auto rule) {
      return graph::typeOf(body.getArgument(rule - rules.begin())).getNumElements();
    };
    if (smallest == rules.end() || size(at) <= size(smallest))
      smallest = at;
  }
  if (terms < 2)
    return rules;
  for (OperandRule &rule : rules)
    if (rule.kind == Kind::MaskedNumber)
      rule.kind = Kind::Number;
  smallest->kind = Kind::Mask;
  return rules;
}

//===-- Numbers -------------------------------------------------------------===//

Noise::Noise(uint64_t seed) : seed(seed) {
  constexpr size_t kPrime = 262139;
  for (size_t i = 0; i < kPrime; ++i)
    normals.push_back(static_cast<float>(runtime::normal(seed, 17, i)));
}

double Noise::uniform(uint64_t stream, uint64_t index) const {
  auto bits = runtime::philox({uint32_t(index), uint32_t(index >> 32), uint32_t(stream), 1},
                              {uint32_t(seed), uint32_t(seed >> 32)});
  return bits[0] / 4294967296.0;
}

void Noise::drawFloats(int64_t count, NumberRegime regime, double scale, uint64_t stream,
                       float *to) const {
  auto period = static_cast<int64_t>(normals.size());
  auto phase = static_cast<int64_t>(uniform(stream, 0) * double(period));
  if (regime == NumberRegime::Equal) {
    double value = (uniform(stream, 1) < 0.5 ? -1 : 1) * (0.5 + 1.5 * uniform(stream, 2));
    std::fill_n(to, count, static_cast<float>(value));
    return;
  }
  // Compute the first period and copy the others.
  int64_t first = std::min(count, period);
  for (int64_t i = 0; i < first; ++i) {
    int64_t at = (i + phase) % period;
    double x = normals[at];
    if (regime == NumberRegime::Large || (regime == NumberRegime::Outliers && at % 499 == 0))
      x *= scale;
    else if (regime == NumberRegime::Tiny)
      x *= 1e-15;
    to[i] = static_cast<float>(x);
  }
  for (int64_t i = first; i < count; i += period)
    std::memcpy(to + i, to, static_cast<size_t>(std::min(period, count - i)) * sizeof(float));
}

// Returns whether element `i` is masked out: every third row as a whole, and elements of the
// others.
static bool isLeftOut(int64_t i, int64_t width, double drawn) {
  return (width > 1 && i / width % 3 == 0) || drawn < 0.3;
}

template <typename T, typename F> static void fill(std::byte *to, int64_t count, F value) {
  auto *out = reinterpret_cast<T *>(to);
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<T>(value(i));
}

void Noise::draw(const OperandRule &rule, Type type, int64_t count, int64_t width,
                 NumberRegime regime, double scale, uint64_t stream, std::byte *to) const {
  bool masks = regime == NumberRegime::Masked;
  auto drawn = [&](int64_t i) { return uniform(stream + 1000, i); };
  if (!isa<FloatType>(type)) {
    auto whole = [&](int64_t i) -> double {
      if (rule.kind == Kind::Truth)
        return masks ? !isLeftOut(i, width, drawn(i)) : drawn(i) < 0.7;
      double share = masks ? (i / width % 3 == 0 ? 1 : 0.3) : 0.1;
      if (!rule.ignored.empty() && uniform(stream + 2000, i) < share)
        return rule.ignored[i % rule.ignored.size()];
      return std::floor(double(rule.low) + drawn(i) * double(rule.high - rule.low));
    };
    if (type.isInteger(64))
      fill<int64_t>(to, count, whole);
    else if (type.isInteger(32))
      fill<int32_t>(to, count, whole);
    else
      fill<uint8_t>(to, count, whole);
    return;
  }
  std::vector<float> wide;
  auto *numbers = reinterpret_cast<float *>(to);
  if (!type.isF32()) {
    wide.resize(count);
    numbers = wide.data();
  }
  if (rule.kind == Kind::Fixed) {
    std::fill_n(numbers, count, static_cast<float>(rule.value));
  } else {
    drawFloats(count, masks ? NumberRegime::Usual : regime, scale, stream, numbers);
    static const float absent[] = {-INFINITY, -FLT_MAX, -1e9f};
    for (int64_t i = 0; i < count && rule.kind == Kind::Positive; ++i)
      numbers[i] = std::fabs(numbers[i]) + (regime == NumberRegime::Tiny ? 1e-16f : 0.05f);
    bool hides = masks && (rule.kind == Kind::Mask || rule.kind == Kind::MaskedNumber);
    for (int64_t i = 0; i < count && rule.kind == Kind::Mask; ++i)
      numbers[i] = regime == NumberRegime::Usual || masks ? 0 : numbers[i];
    for (int64_t i = 0; i < count && hides; ++i)
      if (isLeftOut(i, width, drawn(i)))
        numbers[i] = absent[i / width % 9 / 3];
  }
  if (type.isF64())
    fill<double>(to, count, [&](int64_t i) { return wide[i]; });
  else if (type.isF16())
    fill<uint16_t>(to, count, [&](int64_t i) { return support::floatToHalf(wide[i]); });
  else if (type.isBF16())
    fill<uint16_t>(to, count, [&](int64_t i) { return support::floatToBfloat(wide[i]); });
}

} // namespace llmc::verify

// Draws operands, runs the kernel in parts as the executor does, and compares a sample.
#include "lib/verify/kernels/RunLaunch.h"

#include "dialects/graph/Build.h"
#include "lib/support/ElementType.h"
#include "lib/support/Error.h"
#include "lib/verify/kernels/LogSum.h"
#include "llvm/ADT/STLExtras.h"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

using namespace mlir;

namespace llmc::verify {

using graph::Bounded;
using graph::BoundedTensor;

// Loosens bounds of first order, which are for one order of operations: kernels may take another.
constexpr double kSlack = 4;

StoredFloat storedFloat(planfile::DType type) {
  switch (type) {
  case planfile::DType::BF16:
    return {0x1.fep127, 0x1p-8, 0x1p-134};
  case planfile::DType::F16:
    return {65504, 0x1p-11, 0x1p-25};
  default:
    return {double(FLT_MAX)};
  }
}
StoredFloat storedFloat(Type element) {
  return storedFloat(element.isBF16()  ? planfile::DType::BF16
                     : element.isF16() ? planfile::DType::F16
                                       : planfile::DType::F32);
}

double errorRatio(double got, Bounded wanted, double floor, const StoredFloat &type) {
  if (std::isnan(wanted.value) || std::isinf(wanted.error))
    return -1;
  if (std::isinf(wanted.value)) // Infinities may cancel to NaN on the way, in any sound kernel.
    return std::isnan(got) ? -1 : got == wanted.value ? 0 : INFINITY;
  double limit = kSlack * wanted.radius() + floor;
  limit += std::max(type.half * (std::fabs(wanted.value) + limit), type.least);
  if (std::fabs(wanted.value) + limit > type.largest) // It may overflow on the way.
    return -1;
  double ratio = std::fabs(got - wanted.value) / limit;
  return std::isnan(ratio) ? INFINITY : ratio;
}

static uint64_t bytesOf(Type element) {
  return element.isF64() || element.isInteger(64)   ? 8
         : element.isF32() || element.isInteger(32) ? 4
         : element.isBF16() || element.isF16()      ? 2
                                                    : 1;
}

static double readElement(const std::byte *from, Type element, int64_t i) {
  if (element.isF32())
    return reinterpret_cast<const float *>(from)[i];
  if (element.isF64())
    return reinterpret_cast<const double *>(from)[i];
  if (element.isInteger(64))
    return double(reinterpret_cast<const int64_t *>(from)[i]);
  if (element.isInteger(32))
    return reinterpret_cast<const int32_t *>(from)[i];
  if (element.isF16())
    return support::halfToFloat(reinterpret_cast<const uint16_t *>(from)[i]);
  if (element.isBF16())
    return support::bfloatToFloat(reinterpret_cast<const uint16_t *>(from)[i]);
  auto byte = double(reinterpret_cast<const uint8_t *>(from)[i]);
  return element.isInteger(1) ? byte != 0 : byte;
}

// Chooses elements of the results; along leading dims those of `leading`.
static std::unique_ptr<Sample> chooseSample(Block &body, double flops, int64_t terms = 0,
                                            const Region &leading = {}) {
  for (int64_t count = 48;; count = count * 2 / 3) {
    std::vector<Region> regions;
    for (Value value : body.getTerminator()->getOperands()) {
      Region &region = regions.emplace_back(leading);
      for (int64_t size : graph::shapeOf(value).drop_front(leading.size()))
        region.push_back(spreadIndices(size, count));
    }
    auto sample = std::make_unique<Sample>(body, regions, terms);
    if (count <= 5 || sample->flops() <= flops)
      return sample;
  }
}

static Block &bodyOf(const DistinctLaunch &launch) {
  return plan::LaunchOp(launch.op).getBody().front();
}

LaunchCase::LaunchCase(const DistinctLaunch &launch, double flops, uint64_t mostBytes)
    : launch(&launch), reads(plan::LaunchOp(launch.op).getReads().size()) {
  if (takeSlices(flops, mostBytes))
    return;
  sample = chooseSample(bodyOf(launch), flops);
  constexpr int64_t kTerms = 4096;
  if (sample->flops() <= 20 * flops)
    return;
  std::unique_ptr<Sample> whole = std::move(sample);
  sample = chooseSample(bodyOf(launch), flops, kTerms);
  thinned = vanishes(launch.scalars[0]);
  if (!thinned)
    std::swap(sample, whole);
}

uint64_t LaunchCase::operandBytes() const {
  uint64_t bytes = 0;
  for (const auto &operand : launch->launch->operands)
    bytes += operand->buffer->size;
  return bytes;
}

// Chooses slices, if the operands are too large to be drawn and each slice is computed by rows and from
// operands of its own. Keeps sizes and offsets as they are in the plan: pages between stay untouched.
bool LaunchCase::takeSlices(double flops, uint64_t mostBytes) {
  Block &body = bodyOf(*launch);
  auto results = body.getTerminator()->getOperands();
  if (operandBytes() <= mostBytes ||
      !llvm::all_of(body.without_terminator(), [](Operation &op) {
        return op.hasTrait<graph::Broadcasting>() ||
               isa<graph::CastOp, graph::ReduceOp, graph::AdamWOp, graph::ConstantOp>(op);
      }))
    return false;
  ArrayRef<int64_t> shape = graph::shapeOf(results[0]);
  std::unique_ptr<Sample> found;
  Region foundLeading;
  int64_t slices = 1, run = 1;
  for (size_t rank = 0; rank < shape.size(); ++rank) {
    slices *= shape[rank];
    bool fits = slices > 0 && launch->launch->rows % slices == 0 &&
                llvm::all_of(results, [&](Value result) {
                  ArrayRef<int64_t> other = graph::shapeOf(result);
                  return other.size() > rank && other.take_front(rank + 1) == shape.take_front(rank + 1);
                });
    if (!fits)
      break;
    leading.push_back(IndexSet::few(shape[rank], {0, shape[rank] - 1}));
    run *= leading.back().count();
    sample = chooseSample(body, flops, 0, leading);
    // Results whose regions grew are not computed slice by slice.
    for (auto [i, result] : llvm::enumerate(results))
      fits &= isSliced(graph::typeOf(result), sample->result(i));
    if (!fits || sample->flops() > 20 * flops)
      break;
    found = std::move(sample);
    foundLeading = leading;
    if (double(operandBytes()) * double(run) <= double(mostBytes) * double(slices))
      break;
  }
  leading = std::move(foundLeading);
  sample = std::move(found);
  return sample != nullptr;
}

// Returns whether a region has the chosen slices, and no others, of a tensor that has those dims.
bool LaunchCase::isSliced(RankedTensorType type, const Region &region) const {
  if (leading.empty() || region.size() < leading.size() || !isa<FloatType>(type.getElementType()))
    return false;
  for (auto [own, chosen] : llvm::zip(region, leading)) {
    bool isSame = own.size == chosen.size && own.count() == chosen.count();
    for (int64_t i = 0; isSame && i < own.count(); ++i)
      isSame = own.at(i) == chosen.at(i);
    if (!isSame)
      return false;
  }
  return true;
}

// Calls `body` with the number of each slice that is run, in increasing order, and with the number of all.
template <typename Body> static void forSlices(const Region &leading, Body body) {
  Region whole;
  int64_t count = 1;
  for (const IndexSet &dim : leading) {
    whole.push_back(IndexSet::all(dim.size));
    count *= dim.size;
  }
  walk(whole, leading, [&](int64_t slice) { body(slice, count); });
}

// Returns the bytes of an operand that are run; empty: all.
std::vector<std::pair<uint64_t, uint64_t>> LaunchCase::usedOf(unsigned operand, RankedTensorType type) const {
  const Region &region = operand < reads ? sample->argument(operand) : sample->result(operand - reads);
  std::vector<std::pair<uint64_t, uint64_t>> used;
  if (isSliced(type, region))
    forSlices(leading, [&](int64_t slice, int64_t count) {
      uint64_t bytes = type.getNumElements() / count * bytesOf(type.getElementType());
      used.emplace_back(slice * bytes, (slice + 1) * bytes);
    });
  return used;
}

// Returns whether results are 0 if all float operands are: then a part of a sum can be checked.
bool LaunchCase::vanishes(ArrayRef<int64_t> scalars) const {
  std::vector<BoundedTensor> inputs;
  for (auto [i, argument] : llvm::enumerate(bodyOf(*launch).getArguments())) {
    inputs.emplace_back(shapeOf(sample->argument(i)));
    if (i >= reads)
      inputs.back().data[0] = Bounded(double(scalars[i - reads]));
  }
  return llvm::all_of(sample->evaluate(std::move(inputs)), [](const BoundedTensor &result) {
    return llvm::all_of(result.data, [](const Bounded &x) { return x.value == 0; });
  });
}

bool LaunchCase::has(NumberRegime regime) const {
  std::vector<OperandRule> rules = rulesOf(bodyOf(*launch), reads, launch->scalars[0]);
  if (regime == NumberRegime::Masked)
    return llvm::any_of(rules, [](const OperandRule &rule) { return rule.isMask(); });
  return regime == NumberRegime::Usual ||
         llvm::any_of(llvm::zip(rules, bodyOf(*launch).getArguments()), [](auto pair) {
           return graph::isFloat(std::get<1>(pair)) &&
                  std::get<0>(pair).kind != OperandRule::Kind::Fixed;
         });
}

// Returns the part of the launch that is run.
static double partOf(const Region &leading) {
  double part = 1;
  for (const IndexSet &dim : leading)
    part *= double(dim.count()) / double(dim.size);
  return part;
}

double LaunchCase::bytes() const { return double(operandBytes()) * partOf(leading); }

double LaunchCase::seconds() const {
  double bytes = this->bytes(), flops = 0;
  for (Operation &op : bodyOf(*launch).without_terminator())
    flops += cast<graph::GraphOpInterface>(op).getFlops();
  flops *= partOf(leading);
  constexpr double kBoundedFlops = 5e7; // flops of the reference per second
  return bytes / 1e9 + flops / 2e10 + sample->flops() / kBoundedFlops;
}

// Computes the lse operand of an attention gradient from its q, k, mask and positions.
static void relate(graph::AttentionGradOp op, const Sample &sample, const OperandMemory &memory,
                   unsigned reads) {
  auto argument = [&](Value value) -> std::optional<unsigned> {
    auto found = dyn_cast_or_null<BlockArgument>(value);
    if (!found || found.getArgNumber() >= reads)
      return std::nullopt;
    return found.getArgNumber();
  };
  auto lse = argument(op.getLse()), q = argument(op.getQ()), k = argument(op.getK());
  auto mask = argument(op.getMask());
  if (!lse || !q || !k || bool(op.getMask()) != mask.has_value())
    return;
  std::vector<float> wide[3];
  auto floats = [&](unsigned i, Value value, std::vector<float> &copy) -> const float * {
    RankedTensorType type = graph::typeOf(value);
    if (type.getElementType().isF32())
      return reinterpret_cast<const float *>(memory[i]);
    for (int64_t at = 0; at < type.getNumElements(); ++at)
      copy.push_back(static_cast<float>(readElement(memory[i], type.getElementType(), at)));
    return copy.data();
  };
  AttentionOperands operands{floats(*q, op.getQ(), wide[0]), floats(*k, op.getK(), wide[1])};
  if (mask && graph::isFloat(op.getMask()))
    operands.addedMask = floats(*mask, op.getMask(), wide[2]);
  else if (mask)
    operands.mask = reinterpret_cast<const uint8_t *>(memory[*mask]);
  if (!op.getPositions().empty()) {
    auto rows = argument(op.getPositions()[0]), keys = argument(op.getPositions()[1]);
    if (!rows || !keys)
      return;
    operands.rowPositions = reinterpret_cast<const int64_t *>(memory[*rows]);
    operands.keyPositions = reinterpret_cast<const int64_t *>(memory[*keys]);
  }
  writeLogSum(op, operands, sample.argument(*lse), reinterpret_cast<float *>(memory[*lse]));
}

// Clears all elements outside a region.
static void keepOnly(const Region &region, RankedTensorType type, std::byte *at) {
  uint64_t bytes = bytesOf(type.getElementType());
  std::vector<std::byte> kept;
  walk(wholeOf(type.getShape()), region,
       [&](int64_t i) { kept.insert(kept.end(), at + i * bytes, at + (i + 1) * bytes); });
  std::memset(at, 0, type.getNumElements() * bytes);
  auto next = kept.begin();
  walk(wholeOf(type.getShape()), region, [&](int64_t i) {
    std::copy_n(next, bytes, at + i * bytes);
    next += bytes;
  });
}

void LaunchCase::draw(const CaseContext &setting, const OperandMemory &memory,
                      ArrayRef<int64_t> scalars, NumberRegime regime, double scale,
                      uint64_t stream) const {
  Block &body = bodyOf(*launch);
  std::vector<OperandRule> rules = rulesOf(body, reads, scalars);
  for (unsigned i = 0; i < reads; ++i) {
    RankedTensorType type = graph::typeOf(body.getArgument(i));
    int64_t width = type.getRank() ? type.getShape().back() : 1;
    uint64_t element = bytesOf(type.getElementType());
    for (auto [part, range] : llvm::enumerate(memory.usedOf(i)))
      setting.noise.draw(rules[i], type.getElementType(), std::min<int64_t>((range.second - range.first) / element, type.getNumElements()),
                         width, regime, scale, (part << 48) + stream * 64 + i, memory[i] + range.first);
    if (thinned && isa<FloatType>(type.getElementType()) &&
        volume(sample->argument(i)) < type.getNumElements())
      keepOnly(sample->argument(i), type, memory[i]);
  }
  for (auto op : body.getOps<graph::AttentionGradOp>())
    relate(op, *sample, memory, reads);
}

std::vector<BoundedTensor> LaunchCase::gather(const OperandMemory &memory,
                                              ArrayRef<int64_t> scalars) const {
  Block &body = bodyOf(*launch);
  std::vector<BoundedTensor> inputs;
  for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
    const Region &region = sample->argument(i);
    if (i >= reads) {
      inputs.emplace_back(std::vector<int64_t>());
      inputs.back().data[0] = Bounded(double(scalars[i - reads]));
      continue;
    }
    // Give an empty tensor if nothing is read: the region then has no dims though the argument
    // may.
    if (region.size() != graph::shapeOf(argument).size()) {
      inputs.emplace_back();
      continue;
    }
    BoundedTensor &input = inputs.emplace_back(shapeOf(region));
    auto to = input.data.begin();
    walk(wholeOf(graph::shapeOf(argument)), region, [&](int64_t at) {
      *to++ = Bounded(readElement(memory[i], graph::elementOf(argument), at));
    });
  }
  return inputs;
}

// Returns whether at least half of the results have an error bound below 1 % of the largest
// value: looser bounds accept any result.
static bool saysEnough(const std::vector<BoundedTensor> &results) {
  size_t good = 0, all = 0;
  for (const BoundedTensor &result : results) {
    double largest = 0;
    for (const Bounded &x : result.data)
      if (std::isfinite(x.value))
        largest = std::max(largest, std::fabs(x.value));
    for (const Bounded &x : result.data)
      good += std::isfinite(x.error) && x.radius() <= 0.01 * largest;
    all += result.data.size();
  }
  return good * 2 >= all;
}

// Returns the growth of errors by scattered additions: a kernel may add terms one by one to what
// is there, each rounded at its size, where the body adds their sum (accumulate()).
static double scatteredGrowth(Block &body) {
  double growth = 1;
  for (auto op : body.getOps<graph::ScatterAddOp>())
    growth = std::max(growth, std::sqrt(double(op.getIds().getType().getNumElements())));
  return growth;
}

// Bounds what a denormal that a kernel flushes to zero may become: two operands may multiply it.
// A gradient of attention multiplies each exponential by g.v and by q or k, and sums over all
// rows or keys.
static double magnified(Block &body, double scale) {
  double most = scale * scale;
  for (auto op : body.getOps<graph::AttentionGradOp>()) {
    ArrayRef<int64_t> q = graph::shapeOf(op.getQ()), k = graph::shapeOf(op.getK());
    double terms = double(q[3]) * double(std::max(q[1] * (q[2] / k[2]), k[1]));
    most = std::max(most, scale * scale * scale * terms);
  }
  return most;
}

void LaunchCase::compare(const OperandMemory &memory, const std::vector<BoundedTensor> &wanted,
                         double floor, CaseResult &finding) const {
  Block &body = bodyOf(*launch);
  double growth = scatteredGrowth(body);
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    const std::byte *got = memory[reads + i];
    auto from = wanted[i].data.begin();
    walk(wholeOf(graph::shapeOf(value)), sample->result(i), [&](int64_t at) {
      double number = readElement(got, graph::elementOf(value), at);
      Bounded right = *from++;
      right.error *= growth;
      double ratio = errorRatio(number, right, floor, storedFloat(graph::elementOf(value)));
      finding.judged |= ratio >= 0;
      if (ratio <= finding.ratio)
        return;
      finding.ratio = ratio;
      finding.problem = support::text("element ", at, " of result ", i, " is ", number,
                                      ", expected ", right.value, " +- ", right.radius());
    });
  }
}

// Runs a kernel in several parts of its rows, as the executor does; of chosen slices, their rows.
void LaunchCase::runParts(runtime::KernelFunction kernel, void *const *buffers, const int64_t *scalars,
                          uint64_t stream) const {
  forSlices(leading, [&](int64_t slice, int64_t count) {
    int64_t rows = launch->launch->rows / count, first = slice * rows;
    int64_t parts = std::min<int64_t>(rows, std::array{1, 12, 8}[stream % 3]);
    for (int64_t part = parts; part-- > 0;)
      kernel(buffers, scalars, first + rows * part / parts, first + rows * (part + 1) / parts);
  });
}

CaseResult LaunchCase::run(const CaseContext &setting, ScratchMapping &arena, NumberRegime regime,
                           size_t variant, uint64_t stream) const {
  const planfile::LaunchT &what = *launch->launch;
  plan::LaunchOp op = launch->op;
  std::vector<OperandBytes> extents;
  for (auto [i, operand] : llvm::enumerate(what.operands)) {
    Value buffer = i < reads ? op.getReads()[i] : op.getWrites()[i - reads];
    RankedTensorType type = cast<plan::BufferType>(buffer.getType()).getTensor();
    extents.push_back({operand->buffer->offset, operand->buffer->size, bytesOf(type.getElementType()), i >= reads,
                       i < reads, usedOf(i, type)});
  }
  OperandMemory memory(arena, extents);
  ArrayRef<int64_t> scalars = launch->scalars[variant];
  std::vector<BoundedTensor> wanted;
  double floor = 0;
  bool isLarge = regime == NumberRegime::Large || regime == NumberRegime::Outliers;
  // Try the largest scale for which the bounds still reject wrong results.
  for (double scale : {1e4, 1e3, 1e2, 30.0, 10.0, 3.0}) {
    draw(setting, memory, scalars, regime, scale, stream);
    {
      std::optional<graph::EqualTerms> equal;
      if (regime == NumberRegime::Equal)
        equal.emplace();
      wanted = sample->evaluate(gather(memory, scalars));
    }
    floor = double(FLT_MIN) * magnified(bodyOf(*launch), isLarge ? scale : 1);
    if (!isLarge || saysEnough(wanted))
      break;
  }
  memory.poison();
  std::vector<void *> buffers;
  for (size_t i = 0; i < extents.size(); ++i)
    buffers.push_back(memory[i]);
  runParts(setting.kernels[what.kernel], buffers.data(), scalars.data(), stream);
  CaseResult finding;
  compare(memory, wanted, floor, finding);
  for (size_t i = reads; i < extents.size(); ++i)
    if (int64_t at = memory.firstUnwritten(i); at >= 0)
      finding = {INFINITY,
                 support::text("element ", at, " of result ", i - reads, " is not written"), true};
  if (memory.isGuardOverwritten())
    finding = {INFINITY, "writes beside its results", true};
  return finding;
}

} // namespace llmc::verify

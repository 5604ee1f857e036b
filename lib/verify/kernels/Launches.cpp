// Pairs the ops of the module with the instructions of the program and removes duplicates by key.
#include "lib/verify/kernels/Launches.h"

#include "lib/support/Counted.h"
#include "passes/6-emit/matmul/Equation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;

namespace llmc::verify {

// Writes what determines the meaning of a body: ops, attributes, types and def-use chains. An
// attribute is identified by its address, since its context uniques it. It shares nothing with
// the key by which kernels are emitted, so that a launch to which a wrong key gives another's
// kernel is run, too.
static void writeStructure(Block &body, llvm::raw_ostream &out) {
  llvm::DenseMap<Value, unsigned> numbers;
  for (BlockArgument argument : body.getArguments()) {
    numbers.try_emplace(argument, numbers.size());
    out << ' ' << argument.getType().getAsOpaquePointer();
  }
  for (Operation &op : body) {
    out << '\n' << op.getName();
    if (Attribute properties = op.getPropertiesAsAttribute())
      out << properties.getAsOpaquePointer();
    for (Value operand : op.getOperands())
      out << " %" << numbers.lookup(operand);
    for (Value result : op.getResults()) {
      numbers.try_emplace(result, numbers.size());
      out << ' ' << result.getType().getAsOpaquePointer();
    }
  }
}

// Writes how operands are laid out: the offset of each in a cache line, and which share bytes.
static void writeLayout(const planfile::LaunchT &launch, llvm::raw_ostream &out) {
  for (const auto &x : launch.operands) {
    const planfile::BufferRefT &a = *x->buffer;
    out << '\n' << a.offset % 64 << ' ' << a.size;
    for (const auto &y : launch.operands) {
      const planfile::BufferRefT &b = *y->buffer;
      if (&a != &b && a.offset < b.offset + b.size && b.offset < a.offset + a.size)
        out << ' ' << int64_t(b.offset - a.offset);
      else
        out << " -";
    }
  }
}

static std::string sourceOf(Operation *instruction) {
  auto origin = instruction->getAttrOfType<plan::OriginAttr>("origin");
  if (!origin)
    return "";
  std::string text = " for " + origin.getOp().str();
  if (!origin.getNodes().empty())
    text += " " + origin.getNodes().front().getValue().str();
  return text;
}

static std::string sizesOf(TypeRange types) {
  std::string text;
  for (Type type : types) {
    text += text.empty() ? "" : ", ";
    ArrayRef<int64_t> shape = cast<plan::BufferType>(type).getTensor().getShape();
    for (auto [i, size] : llvm::enumerate(shape))
      text += (i ? "x" : "") + std::to_string(size);
    if (shape.empty())
      text += "1";
  }
  return text;
}

namespace {

class Lister {
public:
  Lister(ModuleOp module, const planfile::ProgramT &program) : module(module), program(program) {}
  DistinctWork run();

private:
  void addStage(plan::StageOp op, const planfile::StageT &stage);
  void addLaunch(plan::LaunchOp op, const planfile::LaunchT &launch);
  void addProduct(Operation *op, const planfile::MatmulT &matmul);

  ModuleOp module;
  const planfile::ProgramT &program;
  DistinctWork work;
  llvm::StringSet<> seen;
  std::vector<std::vector<uint32_t>> coordinates; // of the first, middle and last rank of the stage
};

} // namespace

void Lister::addLaunch(plan::LaunchOp op, const planfile::LaunchT &launch) {
  std::set<std::vector<int64_t>> scalars;
  for (const auto &coordinate : coordinates) {
    std::vector<int64_t> values;
    for (const auto &scalar : launch.scalars)
      values.push_back(planfile::evaluate(*scalar, coordinate));
    scalars.insert(std::move(values));
  }
  std::string key;
  llvm::raw_string_ostream out(key);
  out << launch.kernel << ' ' << launch.rows;
  for (const auto &values : scalars)
    llvm::interleaveComma(values, out << '\n');
  writeStructure(op.getBody().front(), out);
  writeLayout(launch, out);
  if (!seen.insert(key).second)
    return;
  work.launches.push_back({op,
                           &launch,
                           {scalars.begin(), scalars.end()},
                           program.kernels[launch.kernel]->name + " of " +
                               sizesOf(op.getWrites().getTypes()) + sourceOf(op)});
}

void Lister::addProduct(Operation *op, const planfile::MatmulT &m) {
  std::string key;
  llvm::raw_string_ostream out(key);
  out << int(m.a_type) << ' ' << int(m.b_type) << ' ' << int(m.c_type) << ' ' << m.batch << ' '
      << m.m << ' ' << m.n << ' ' << m.k << ' ' << m.accumulate << ' ' << m.fallback;
  for (const auto *strides : {&m.a_strides, &m.b_strides, &m.c_strides})
    llvm::interleave(*strides, out << '\n', " ");
  for (const auto *buffer : {&m.a, &m.b, &m.c})
    out << '\n' << (*buffer)->offset % 64;
  if (m.routing)
    out << '\n' << int(m.routing->form) << ' ' << m.routing->a_share << ' ' << m.routing->b_share;
  if (!seen.insert(key).second)
    return;
  work.products.push_back(
      {&m, support::text(m.accumulate ? "added " : "", m.routing ? "grouped " : "", "product of ",
                         m.batch, "x", m.m, "x", m.k, " and ", m.k, "x", m.n, sourceOf(op))});
}

void Lister::addStage(plan::StageOp op, const planfile::StageT &stage) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < planfile::rankCount(*program.mesh); ++rank)
    if (planfile::stageOf(program, rank) == op.getStage())
      ranks.push_back(rank);
  coordinates.clear();
  for (size_t i : {size_t(0), ranks.size() / 2, ranks.size() - 1})
    coordinates.push_back(planfile::coordinateOf(*program.mesh, ranks[i]));
  size_t number = 0;
  for (auto procedure : op.getBody().getOps<plan::ProcedureOp>()) {
    const auto &instructions = stage.procedures[number++]->instructions;
    size_t next = 0;
    for (Operation &instruction : procedure.getBody().front()) {
      auto matmul = dyn_cast<plan::MatmulOp>(instruction);
      if (!matmul) {
        if (auto launch = dyn_cast<plan::LaunchOp>(instruction))
          addLaunch(launch, *instructions[next]->body.AsLaunch());
        if (isa<plan::GroupedMatmulOp>(instruction))
          addProduct(&instruction, *instructions[next]->body.AsMatmul());
        ++next;
        continue;
      }
      auto shape = [](Value v) {
        return cast<plan::BufferType>(v.getType()).getTensor().getShape();
      };
      auto calls =
          emit::matmulCalls(matmul.getEquation(), shape(matmul.getLhs()), shape(matmul.getRhs()),
                            shape(matmul.getOut()), matmul.getAccumulate());
      for (size_t i = 0; succeeded(calls) && i < calls->calls.size(); ++i)
        addProduct(matmul, *instructions[next++]->body.AsMatmul());
    }
  }
}

DistinctWork Lister::run() {
  for (auto stage : module.getOps<plan::StageOp>())
    addStage(stage, *program.stages[stage.getStage()]);
  return std::move(work);
}

DistinctWork listWork(ModuleOp module, const planfile::ProgramT &program) {
  return Lister(module, program).run();
}

} // namespace llmc::verify

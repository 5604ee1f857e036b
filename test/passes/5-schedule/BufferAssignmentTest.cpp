// Random functions of one stage: whatever order values are computed and read in,
// writing them in place must not lose one that is still read.
#include "lib/verify/interpret/PlanInterpreter.h"
#include "mlir/Pass/PassManager.h"
#include "passes/5-schedule/Pipeline.h"
#include "test/passes/3-shard/Steps.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>
#include <sstream>

using namespace mlir;

namespace llmc::test {
namespace {

const char *kPair = "tensor<2x4xf32>", *kRow = "tensor<1x4xf32>", *kVector = "tensor<4xf32>",
           *kFlat = "tensor<8xf32>", *kSquare = "tensor<4x4xf32>", *kTriple = "tensor<3x4xf32>";

// A function body in the making: values by type, and who may be returned where.
class Body {
public:
  explicit Body(std::mt19937 &random) : random(random) {}

  void argument(const std::string &name, const std::string &type, const std::string &binding) {
    arguments << (values.empty() ? "" : ", ") << name << ": " << type << " {" << binding << "}";
    values[type].push_back(name);
  }
  // Returns a value of that type that an op computes, so no other argument as it is.
  void result(const std::string &type, const std::string &binding) {
    std::string value = op("tanh", {pick(type)}, {type}, type);
    // Sometimes with ops behind it that still read what it may overwrite.
    if (random() % 2)
      step();
    returned << (results++ ? ", " : "") << value;
    returnedTypes << (results > 1 ? ", " : "") << type;
    bindings << (results > 1 ? ", " : "") << type << " {" << binding << "}";
  }
  void add(const std::string &accumulator, const std::string &type, const std::string &binding) {
    // A value of the same type, of any age, or a product.
    std::string other = type == kSquare && random() % 2
                            ? op("matmul \"ba,bc->ac\"", {pick(kPair), pick(kPair)}, {kPair, kPair}, type)
                            : pick(type);
    if (random() % 3 == 0)
      step();
    if (random() % 3 == 0) // the old value, for an op behind
      op("neg", {accumulator}, {type}, type);
    std::string sum = random() % 2 ? op("add", {accumulator, other}, {type, type}, type)
                                   : op("add", {other, accumulator}, {type, type}, type);
    returned << (results++ ? ", " : "") << sum;
    returnedTypes << (results > 1 ? ", " : "") << type;
    bindings << (results > 1 ? ", " : "") << type << " {" << binding << "}";
  }
  void steps(int64_t count) {
    for (; count > 0; --count)
      step();
  }
  std::string text(const std::string &name, const std::string &kind) const {
    return "func.func @" + name + "(" + arguments.str() + ") -> (" + bindings.str() +
           ") attributes {parallel.stage = 0 : i64, parallel.procedure = \"" + kind + "\"} {\n" +
           body.str() + "return" +
           (results ? " " + returned.str() + " : " + returnedTypes.str() : std::string()) + "\n}\n";
  }

private:
  bool has(const std::string &type) { return values.count(type); }
  std::string pick(const std::string &type) {
    auto &list = values[type];
    if (list.empty()) // every function has a pair
      return derive(type);
    // Young values more often than old ones.
    size_t n = list.size(), back = std::min<size_t>(random() % n, random() % n);
    return list[n - 1 - back];
  }
  std::string derive(const std::string &type) {
    if (type == kSquare)
      return op("matmul \"ba,bc->ac\"", {pick(kPair), pick(kPair)}, {kPair, kPair}, type);
    if (type == kFlat)
      return op("reshape", {pick(kPair)}, {kPair}, type);
    if (type == kTriple)
      return random() % 2 ? op("concat", {pick(kPair), pick(kRow)}, {kPair, kRow}, type, " {dim = 0 : i64}")
                          : op("concat", {pick(kRow), pick(kPair)}, {kRow, kPair}, type, " {dim = 0 : i64}");
    if (type == kVector)
      return op("reshape", {pick(kRow)}, {kRow}, type);
    return slice(random() % 2);
  }
  std::string op(const std::string &name, const std::vector<std::string> &operands,
                 const std::vector<std::string> &types, const std::string &result,
                 const std::string &attributes = "") {
    std::string value = "%v" + std::to_string(count++), list, typeList;
    for (size_t i = 0; i < operands.size(); ++i) {
      list += (i ? ", " : "") + operands[i];
      typeList += (i ? ", " : "") + types[i];
    }
    body << value << " = graph." << name << " " << list << attributes << " : (" << typeList << ") -> "
         << result << "\n";
    values[result].push_back(value);
    return value;
  }
  std::string slice(int64_t row) {
    std::string from = std::to_string(row), to = std::to_string(row + 1);
    return op("slice", {pick(kPair)}, {kPair}, kRow,
              " {starts = array<i64: " + from + ", 0>, limits = array<i64: " + to +
                  ", 4>, steps = array<i64: 1, 1>}");
  }
  // Two of three rows: they may cut a part of what was put together.
  std::string cut(int64_t row) {
    std::string from = std::to_string(row), to = std::to_string(row + 2);
    return op("slice", {pick(kTriple)}, {kTriple}, kPair,
              " {starts = array<i64: " + from + ", 0>, limits = array<i64: " + to +
                  ", 4>, steps = array<i64: 1, 1>}");
  }
  std::string any() {
    auto it = values.begin();
    std::advance(it, random() % values.size());
    return it->first;
  }
  void step() {
    std::string type = any();
    switch (random() % 12) {
    case 0:
    case 1: op(random() % 2 ? "neg" : "tanh", {pick(type)}, {type}, type); break;
    case 2:
    case 3: op(random() % 2 ? "mul" : "sub", {pick(type), pick(type)}, {type, type}, type); break;
    case 4: slice(random() % 2); break;
    case 5: op("concat", {pick(kRow), pick(kRow)}, {kRow, kRow}, kPair, " {dim = 0 : i64}"); break;
    case 6: random() % 2 ? op("reshape", {pick(kVector)}, {kVector}, kRow)
                         : op("reshape", {pick(kFlat)}, {kFlat}, kPair); break;
    case 7: op("matmul \"ab,bc->ac\"", {pick(kPair), pick(kSquare)}, {kPair, kSquare}, kPair); break;
    case 8: op("softmax", {pick(kPair)}, {kPair}, kPair); break;
    case 9: reduce(type); break;
    case 10: derive(kTriple); break;
    case 11: cut(random() % 2); break;
    }
  }
  // Two equal parts: who reads the operand later must not find the sum.
  void reduce(const std::string &type) {
    std::string value = "%v" + std::to_string(count++);
    body << value << " = parallel.all_reduce " << pick(type)
         << " over [\"tp\"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = \"n\", tactic = "
            "\"tensor\", rule = \"r\"}} : "
         << type << "\n";
    values[type].push_back(value);
  }

  std::mt19937 &random;
  std::map<std::string, std::vector<std::string>> values;
  std::ostringstream arguments, body, returned, returnedTypes, bindings;
  int count = 0, results = 0;
};

std::string randomFunctions(std::mt19937 &random) {
  std::ostringstream text;
  text << "module attributes {parallel.mesh = #parallel.mesh<[\"dp\"=1, \"pp\"=1, \"tp\"=2]>} {\n"
       << "graph.source @src : tensor<64xf32> {init = #graph.init_kind<zeros>}\n";
  std::vector<std::pair<std::string, std::string>> states = {
      {"p0", kPair}, {"p1", kSquare}, {"p2", kSquare}, {"p3", kPair}, {"p4", kVector}};
  for (auto &[name, type] : states) {
    std::string strides = type == kVector ? "1" : "4, 1";
    text << "graph.state @" << name << " : " << type << " parameter views [#graph.view<@src, 0, ["
         << strides << "]>] {parallel.stages = [0]}\n"
         << "graph.state @" << name << ".grad : " << type << " accumulator of @" << name
         << " {parallel.stages = [0]}\n";
  }
  auto bind = [](const std::string &state) { return "graph.state = @" + state; };
  auto number = [](int64_t i) { return "parallel.residual = " + std::to_string(i) + " : i64"; };
  std::vector<std::string> kept;
  Body forward(random), backward(random), update(random);
  forward.argument("%x", kPair, "graph.input = \"input_ids\"");
  for (auto &[name, type] : states)
    if (random() % 2)
      forward.argument("%" + name, type, bind(name));
  forward.steps(random() % 8);
  for (int64_t i = random() % 4; i > 0; --i) {
    kept.push_back(std::vector<std::string>{kPair, kRow, kVector, kFlat, kSquare}[random() % 5]);
    forward.result(kept.back(), number(kept.size() - 1));
  }
  forward.steps(random() % 6); // what is kept may be read further on
  backward.argument("%x", kPair, "graph.input = \"input_ids\"");
  for (size_t i = 0; i < kept.size(); ++i)
    backward.argument("%r" + std::to_string(i), kept[i], number(i));
  for (auto &[name, type] : states)
    backward.argument("%" + name + "g", type, bind(name + ".grad"));
  backward.steps(random() % 6);
  for (auto &[name, type] : states)
    backward.add("%" + name + "g", type, bind(name + ".grad"));
  update.argument("%p0", kPair, bind("p0")); // first, so that a pair is there
  for (auto &[name, type] : states) {
    if (name != "p0")
      update.argument("%" + name, type, bind(name));
    update.argument("%" + name + "g", type, bind(name + ".grad"));
  }
  update.steps(random() % 8);
  for (auto &[name, type] : states) {
    update.result(type, bind(name));
    if (random() % 2)
      update.result(type, bind(name + ".grad"));
  }
  update.result(kVector, "graph.output = \"loss\"");
  text << forward.text("forward_0", "forward") << backward.text("backward_0", "backward")
       << update.text("update_0", "update") << "}\n";
  return text.str();
}

graph::Tensor drawTensor(std::vector<int64_t> shape, std::mt19937 &random) {
  std::normal_distribution<double> normal(0, 1);
  graph::Tensor tensor(std::move(shape));
  for (double &x : tensor.data)
    x = normal(random);
  return tensor;
}

TEST(BufferAssignment, RandomFunctionsKeepTheirValues) {
  for (int i = 0; i < 10 * draws().count; ++i) {
    unsigned seed = draws().seed + i;
    std::mt19937 random(seed);
    std::string what = "seed " + std::to_string(seed), text = randomFunctions(random);
    MLIRContext context;
    loadDialects(context);
    OwningOpRef<ModuleOp> module = parse(context, text);
    OwningOpRef<ModuleOp> before = cast<ModuleOp>((*module)->clone());
    ScheduleOptions options;
    options.schedule = random() % 2 ? "gpipe" : "1f1b";
    options.microBatches = 1 + random() % 3;
    PassManager passes(&context);
    buildSchedulePipeline(passes, options);
    bool ok = succeeded(passes.run(*module));
    EXPECT_TRUE(ok) << what + ": phase 5 fails\n" + text;
    if (!ok)
      continue;
    parallel::StepInput input;
    for (auto state : before->getOps<graph::StateOp>())
      if (state.getRole() == graph::Role::parameter)
        input.states[state.getSymName().str()] =
            drawTensor(cast<RankedTensorType>(state.getType()).getShape().vec(), random);
    for (int64_t m = 0; m < options.microBatches; ++m)
      input.microBatches.push_back({{"input_ids", drawTensor({2, 4}, random)}});
    auto expected = parallel::evaluateStep(*before, input);
    auto got = verify::interpretStep(*module, input, random);
    EXPECT_TRUE(succeeded(expected) && succeeded(got)) << what + ": the step does not run";
    if (failed(expected) || failed(got))
      continue;
    auto list = differences(*before, *got, *expected);
    EXPECT_TRUE(list.empty()) << what + ": " + (list.empty() ? "" : list[0]) + "\n" + text;
  }
}

} // namespace
} // namespace llmc::test

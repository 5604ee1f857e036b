// Tests the texts of explain and the memory report on hand-made plans.
#include "lib/report/Explain.h"
#include "lib/report/Memory.h"
#include "test/planfile/PlanBuilder.h"

#include <gtest/gtest.h>
#include <set>


using namespace llmc::planfile;
using namespace llmc::report;
using namespace llmc::test;
using nlohmann::json;

namespace {

std::unique_ptr<TensorInfoT> tensor(std::vector<std::string> names, std::vector<int64_t> shape,
                                    uint32_t dim, uint32_t axis) {
  auto made = std::make_unique<TensorInfoT>();
  made->names = std::move(names);
  made->shape = std::move(shape);
  made->layout = std::make_unique<LayoutT>();
  made->layout->dims.resize(made->shape.size());
  for (auto &cuts : made->layout->dims)
    cuts = std::make_unique<DimShardingT>();
  made->layout->dims[dim]->axes = {axis};
  return made;
}

// makePlan with one op of two folded layers, cut over dp, which reads a parameter.
ProgramT describedPlan() {
  ProgramT program = makePlan({.stages = 2});
  auto op = std::make_unique<OpInfoT>();
  op->op = "graph.matmul";
  op->names = {"layer", "layer.b", "layer2"};
  op->layers = {0, 0, 1};
  op->operands.push_back(tensor({"qkv", "w1"}, {4, 4}, 1, 0));
  op->results.push_back(tensor({}, {4, 6}, 0, 0));
  auto cut = std::make_unique<AxisCutT>();
  cut->axis = 0;
  cut->tactic = "data";
  cut->rule = "rows";
  cut->seed = "input";
  op->cuts.push_back(std::move(cut));
  program.ops.push_back(std::move(op));
  return program;
}

} // namespace

TEST(Explain, NamesAreUniqueAndGivenBack) {
  ProgramT program = makePlan({.stages = 3});
  auto all = explainJson(program, "");
  EXPECT_TRUE(bool(all));
  std::set<std::string> names;
  for (const char *list : {"collectives", "sends"})
    for (const json &entry : (*all)[list]) {
      std::string name = entry["name"];
      EXPECT_TRUE(names.insert(name).second) << name + " appears twice";
      auto answer = explainJson(program, name);
      EXPECT_TRUE(bool(answer)) << name + " is not known";
      for (const char *key : {"bytes", "per_step", "step_bytes", "stage"})
        EXPECT_EQ((*answer)[key], entry[key]);
      EXPECT_TRUE(!(*answer)["alternatives"].empty() || (*answer)["why"]["tactic"] == "data");
      EXPECT_TRUE(!explainText(*answer).empty());
    }
  EXPECT_TRUE(names.count("pp/update/emb") == 1);
  EXPECT_TRUE(names.count("send/0-1") == 1 && names.count("send/2-1") == 1);
}

TEST(Explain, NearestNames) {
  ProgramT program = describedPlan();
  auto unknown = explainJson(program, "layer3");
  EXPECT_TRUE(!unknown);
  EXPECT_TRUE(unknown.message().find("'layer3'") != std::string::npos &&
              unknown.message().find("layer2") != std::string::npos)
      << unknown.message();
}

TEST(Explain, NodeOfALayer) {
  ProgramT program = describedPlan();
  json node = *explainJson(program, "layer2");
  EXPECT_EQ(node["what"], json("node"));
  EXPECT_EQ(node["ops"][0]["layer"], json(1));
  EXPECT_EQ(node["ops"][0]["operands"][0]["name"], json("w1"));
  EXPECT_EQ(node["ops"][0]["operands"][0]["layout"], json("[4, 4/dp]"));
  EXPECT_EQ(node["ops"][0]["operands"][0]["local_shape"], json({4, 2}));
  EXPECT_EQ(node["ops"][0]["operands"][0]["bytes"], json(32));
  EXPECT_EQ(node["ops"][0]["cuts"][0]["came_by"], json("operand 0 (w1)"));
  json parameter = *explainJson(program, "qkv");
  EXPECT_EQ(parameter["what"], json("parameter"));
  EXPECT_EQ(parameter["read_by"][0]["node"], json("layer"));
  EXPECT_EQ(parameter["cuts"][0]["rule"], json("rows"));
  json kind = *explainJson(program, "matmul");
  EXPECT_EQ(kind["nodes"].size(), 1u);
  EXPECT_EQ(kind["nodes"][0]["layers"], json(2));
}

TEST(Explain, DescriptionsAreBounded) {
  EXPECT_TRUE(bool(checkBounds(describedPlan())));
  ProgramT program = describedPlan();
  program.ops[0]->layers.pop_back();
  EXPECT_TRUE(!checkBounds(program));
  program = describedPlan();
  program.ops[0]->cuts[0]->axis = 3;
  EXPECT_TRUE(!checkBounds(program));
  program = describedPlan();
  program.ops[0]->results[0]->layout->unreduced = {0};
  EXPECT_TRUE(!checkBounds(program));
  program = describedPlan();
  program.origins[0]->tensors.push_back(tensor({}, {4}, 0, 7));
  EXPECT_TRUE(!checkBounds(program));
  program = describedPlan();
  program.ops[0]->operands[0]->shape = {int64_t(1) << 40, int64_t(1) << 40};
  EXPECT_TRUE(!checkBounds(program));
  auto read = readProgram(writeProgram(describedPlan()));
  EXPECT_TRUE(!read); // version 0
  program = describedPlan();
  program.version = kPlanVersion;
  read = readProgram(writeProgram(program));
  EXPECT_TRUE(bool(read) && (*read)->ops.size() == 1 && (*read)->ops[0]->layers.size() == 3);
}

TEST(Explain, MemoryAddsUp) {
  for (unsigned stages : {1u, 3u}) {
    ProgramT program = makePlan({.stages = stages});
    for (uint32_t s = 0; s < stages; ++s) {
      uint64_t sum = 0, states = 0;
      for (const auto &[kind, bytes] : memoryOf(program, s)) {
        sum += bytes;
        states += kind == "weights" || kind == "gradients" || kind == "optimizer" ? bytes : 0;
      }
      uint64_t held = 0;
      for (const auto &state : program.stages[s]->states)
        held += state->buffer->size;
      EXPECT_EQ(sum, program.stages[s]->arena_bytes);
      EXPECT_EQ(states, held);
    }
  }
}

// Tests the report on hand-made plans, whose counts can be done by hand.
#include "lib/report/Report.h"
#include "lib/planfile/Check.h"
#include "lib/report/Memory.h"
#include "test/planfile/ChunkPlan.h"
#include "test/planfile/PlanBuilder.h"

#include <gtest/gtest.h>
#include <set>

using namespace llmc::planfile;
using namespace llmc::report;
using namespace llmc::test;
using nlohmann::json;

namespace {

// Entries of `list` that have all of `fields`.
json select(const json &list, const json &fields) {
  json found = json::array();
  for (const json &entry : list) {
    bool equal = true;
    for (const auto &[key, value] : fields.items())
      equal &= entry.at(key) == value;
    if (equal)
      found.push_back(entry);
  }
  return found;
}

uint64_t stepCount(const json &list, const json &fields) {
  uint64_t count = 0;
  for (const json &entry : select(list, fields))
    count += entry["per_step"].get<uint64_t>();
  return count;
}

} // namespace

TEST(Report, InspectCounts) {
  ProgramT program = makePlan({.stages = 3, .microBatches = 5});
  json j = inspectJson(program, 1234);
  EXPECT_EQ(j["model"], (json{{"name", "toy"},
                              {"parameters", 48 + 16 + 2 * 16},
                              {"layers", 3},
                              {"blocks", {"linear x3"}}}));
  EXPECT_EQ(j["parameters"], (json{"qkv", "emb", "w1", "w2"}));
  EXPECT_EQ(j["constants"], json(json::array()));
  EXPECT_EQ(j["mesh"], (json{{"dp", 2}, {"pp", 3}, {"tp", 1}, {"cp", 1}, {"ep", 1}, {"etp", 1}}));
  EXPECT_EQ(j["ranks"], json(6));
  EXPECT_EQ(j["micro_batch"], json(1));
  EXPECT_EQ(j["micro_batches"], json(5));
  EXPECT_EQ(j["schedule"], json("1f1b"));
  EXPECT_EQ(j["file_bytes"], json(1234));
  // q, k, v, emb and their gradients; w1; w2, emb, and loss.sum.
  EXPECT_EQ(j["state_bytes"], json(2 * 4 * 64 + 2 * 64 + 2 * 2 * 64 + 4));

  // p2p: 2 (p - 1) m messages of one tensor.
  EXPECT_EQ(stepCount(j["sends"], {{"bytes", 64}}), 2u * 2 * 5);
  EXPECT_EQ(stepCount(j["sends"], {{"from_stage", 1}, {"to_stage", 0}}), 5u);
  EXPECT_EQ(j["sends"].size(), 4u);

  // Each gradient over dp, once a step; the tied one over both holders, listed
  // for the lower; the norm over all, listed for stage 0.
  const json &c = j["collectives"];
  EXPECT_EQ(stepCount(c, {{"stage", 0}, {"axes", {"dp"}}, {"phase", "backward"}}), 4u);
  EXPECT_EQ(stepCount(c, {{"stage", 1}, {"axes", {"dp"}}}), 1u);
  EXPECT_EQ(stepCount(c, {{"stage", 2}, {"axes", {"dp"}}}), 2u);
  json tied = select(c, {{"axes", {"pp"}}});
  EXPECT_EQ(tied.size(), 1u);
  EXPECT_EQ(tied[0], (json{{"name", "pp/update/emb"},
                           {"kind", "all_reduce"},
                           {"axes", {"pp"}},
                           {"stage", 0},
                           {"phase", "update"},
                           {"bytes", 64},
                           {"per_step", 1},
                           {"origin", "emb"},
                           {"source",
                            {{"op", "graph.add"},
                             {"nodes", {"emb"}},
                             {"tactic", "stages"},
                             {"rule", ""}}}}));
  json norm = select(c, {{"axes", {"dp", "pp"}}});
  EXPECT_EQ(norm.size(), 1u);
  EXPECT_EQ(norm[0]["origin"], json("clip"));

  for (unsigned s = 0; s < 3; ++s) {
    EXPECT_EQ(j["stages"][s]["slots"], json(3 - s)); // min(m, p - s)
    EXPECT_EQ(j["stages"][s]["live_bytes"], json(peakLiveBytes(program, s)));
    EXPECT_EQ(j["stages"][s]["first_layer"], json(s));
  }
  EXPECT_EQ(j["kernels"], (json{"step", "loss", "norm", "sgd", "matmul"}));
  EXPECT_EQ(j["instructions"]["send"], json(20));
  EXPECT_EQ(j["instructions"]["recv"], json(20));
  EXPECT_EQ(j["instructions"]["matmul"], json(2 * 5));
  EXPECT_EQ(j["instructions"]["feed"], json(2 * 5));
  EXPECT_EQ(j["instructions"]["collective"], json(7 + 2 + 3));
}

// The report follows the plan: an instruction less is a count less.
TEST(Report, InspectWalksThePlan) {
  ProgramT program = makePlan({.gpipe = true});
  json before = inspectJson(program, 0);
  EXPECT_EQ(before["stages"][0]["slots"], json(4));
  ProcedureT &last = procedureOf(program, 0, ProcedureKind::BackwardLast);
  std::erase_if(last.instructions,
                [](const auto &inst) { return inst->body.type == Body::Collective; });
  json after = inspectJson(program, 0);
  EXPECT_EQ(stepCount(before["collectives"], {{"stage", 0}, {"axes", {"dp"}}}), 4u);
  EXPECT_EQ(stepCount(after["collectives"], {{"stage", 0}, {"axes", {"dp"}}}), 0u);
  program.stages[0]->table.erase(program.stages[0]->table.begin() + 1);
  EXPECT_EQ(stepCount(inspectJson(program, 0)["sends"], {{"from_stage", 0}}), 3u);
}

// Checks that, if backward is split, values that only the weights' gradients read count as saved.
TEST(Report, SavedForEitherPartOfBackward) {
  auto program = makeChunkPlan({});
  auto savedOf = [&](uint32_t stage, const char *procedure, Body kind) {
    const auto &list = program->stages[stage]->procedures;
    for (uint32_t p = 0; p < list.size(); ++p)
      for (uint32_t i = 0; list[p]->name == procedure && i < list[p]->instructions.size(); ++i)
        if (list[p]->instructions[i]->body.type == kind)
          return savedBytes(*program, {.stage = stage, .procedure = p, .index = i});
    return UINT64_MAX;
  };
  EXPECT_EQ(savedOf(0, "forward0", Body::Feed), 16u);   // x, of the first place
  EXPECT_EQ(savedOf(0, "forward0", Body::Launch), 0u);  // y, which is sent
  EXPECT_EQ(savedOf(1, "forward1", Body::Launch), 16u); // y, of the last place
  std::erase_if(program->stages[0]->procedures[3]->instructions, [](const auto &) { return true; });
  EXPECT_TRUE(program->stages[0]->procedures[3]->kind == ProcedureKind::Weight)
      << "not the weights' pass";
  EXPECT_EQ(savedOf(0, "forward0", Body::Feed), 0u);
}

// Groups of one rank move nothing and are not listed.
TEST(Report, GroupsOfOneAreNotListed) {
  json j = inspectJson(makePlan({.stages = 1, .dp = 1}), 0);
  EXPECT_EQ(j["collectives"].size(), 0u);
  EXPECT_EQ(j["sends"].size(), 0u);
}

TEST(Report, ScheduleIsDrawn) {
  EXPECT_EQ(drawSchedule(makePlan({})), "  stage 0  F0  F1      B0  F2  B1  F3  B2      B3  U\n"
                                        "  stage 1      F0  B0  F1  B1  F2  B2  F3  B3  U\n"
                                        "  bubble: 4 of 20 cells (stages x columns) before the update are empty, if all take as long\n");
  // 7 columns in 4: the first two, then the last two.
  EXPECT_EQ(drawSchedule(makePlan({.gpipe = true, .microBatches = 2}), 4),
            "  stage 0  F0  F1  ...  B1  U\n"
            "  stage 1      F0  ...  U\n"
            "  bubble: 4 of 12 cells (stages x columns) before the update are empty, if all take as long\n");
}

TEST(Report, TextNamesWhatMatters) {
  std::string text = inspectText(makePlan({}), 5000);
  for (const char *words : {"80 parameters", "dp 2 x pp 2 x tp 1: 4 ranks", "schedule 1f1b",
                            "5,000 in the file", "all_reduce", "clip", "F0", "sgd"})
    EXPECT_TRUE(text.find(words) != std::string::npos)
        << std::string(words) + " is missing:\n" + text;
}

// Checks that each of many stages has a row.
TEST(Report, MemoryOfManyStages) {
  ProgramT program = makePlan({.stages = 12, .microBatches = 12});
  std::string text = inspectText(program, 5000);
  std::string memory = text.substr(text.find("memory"), text.find("schedule\n") - text.find("memory"));
  for (unsigned s = 0; s < 12; ++s)
    EXPECT_TRUE(memory.find("stage " + std::to_string(s) + " ") != std::string::npos) << memory;
}

// GPipe and 1F1B: (p - 1) columns of F and of B are empty on each stage, whoever sends how.
TEST(Report, InspectTableOfASchedule) {
  for (bool exchange : {false, true})
    for (bool gpipe : {false, true}) {
      json j = inspectJson(makePlan({.gpipe = gpipe, .stages = 3, .microBatches = 5, .exchange = exchange}), 0);
      EXPECT_EQ(j["bubble"], (json{{"cells", 3 * 2 * (5 + 2)}, {"empty", 3 * 2 * 2}}));
      EXPECT_EQ(j["table"].size(), 3u * (2 * 5 + 1));
      EXPECT_EQ(select(j["table"], {{"stage", 2}, {"kind", "F"}, {"micro_batch", 0}})[0]["column"], json(2));
      EXPECT_EQ(select(j["table"], {{"kind", "U"}}).size(), 3u);
      for (int s = 0; s < 3; ++s) {
        int kept = gpipe ? 5 : 3 - s;
        EXPECT_EQ(j["stages"][s]["in_flight"], json(kept));
        EXPECT_EQ(j["stages"][s]["chunks"], (json{{{"first_layer", s}, {"last_layer", s}, {"slots", kept}}}));
      }
      EXPECT_EQ(stepCount(j["sends"], {{"phase", "forward"}, {"axis", "pp"}, {"chunk", 0}, {"stage", 0}}), 5u);
      EXPECT_EQ(stepCount(j["sends"], {{"phase", "backward"}, {"stage", 2}, {"to_stage", 1}}), 5u);
    }
}

// Two chunks a stage, a split backward: every pair of chunk and micro-batch has one cell of
// each kind, no two of a stage in one column, and messages name the chunk that sends them.
TEST(Report, InspectTableOfChunks) {
  auto program = makeChunkPlan({.stages = 2, .chunks = 2, .microBatches = 4});
  json j = inspectJson(*program, 0);
  int64_t columns = 0;
  for (int s = 0; s < 2; ++s) {
    std::set<int64_t> taken;
    for (const char *kind : {"F", "B", "W"})
      for (int chunk = 0; chunk < 2; ++chunk)
        for (int m = 0; m < 4; ++m) {
          json cells = select(j["table"], {{"stage", s}, {"kind", kind}, {"chunk", chunk}, {"micro_batch", m}});
          EXPECT_EQ(cells.size(), 1u);
          int64_t column = cells.empty() ? -1 : cells[0]["column"].get<int64_t>();
          EXPECT_TRUE(taken.insert(column).second);
          columns = std::max(columns, column + 1);
        }
    // Pools alternate: activations of chunk 0, its gradients, then those of chunk 1.
    EXPECT_EQ(j["stages"][s]["chunks"],
              (json{{{"first_layer", s}, {"last_layer", s}, {"slots", 2}},
                    {{"first_layer", s + 2}, {"last_layer", s + 2}, {"slots", 2}}}));
    EXPECT_EQ(j["stages"][s]["slots"], json(4));
    EXPECT_TRUE(j["stages"][s]["in_flight"].get<int>() >= 2);
  }
  EXPECT_EQ(j["model"]["layers"], json(4));
  EXPECT_EQ(j["bubble"], (json{{"cells", 2 * columns}, {"empty", 2 * columns - 2 * 3 * 2 * 4}}));
  // Activations of chunk 0 go from the last stage around to chunk 1 of the first.
  EXPECT_EQ(stepCount(j["sends"], {{"phase", "forward"}, {"stage", 1}, {"chunk", 0}, {"to_stage", 0}}), 4u);
  EXPECT_EQ(stepCount(j["sends"], {{"phase", "backward"}, {"stage", 0}, {"chunk", 1}, {"to_stage", 1}}), 4u);
}

// Plans that keep the bounds and that no compiler writes: chunks without a pool, and an axis
// whose name is that of another product.
TEST(Report, OddPlansAreReported) {
  ProgramT program = makePlan({});
  for (auto &stage : program.stages)
    for (int layer : {7, 8}) {
      stage->chunks.push_back(std::make_unique<ChunkT>());
      stage->chunks.back()->first_layer = stage->chunks.back()->last_layer = layer;
    }
  EXPECT_TRUE(bool(checkBounds(program)));
  json j = inspectJson(program, 0);
  EXPECT_EQ(j["stages"][0]["chunks"].size(), 3u);
  EXPECT_EQ(j["stages"][0]["chunks"][2]["slots"], json(0));

  ProgramT renamed = makePlan({});
  renamed.mesh->names.clear();
  renamed.mesh->names.push_back(std::make_unique<AxisProductT>());
  renamed.mesh->names.back()->name = renamed.mesh->axes[renamed.stage_axis]->name;
  renamed.mesh->names.back()->axes = {renamed.stage_axis ? 0u : 1u};
  EXPECT_TRUE(bool(checkBounds(renamed)));
  EXPECT_EQ(inspectJson(renamed, 0)["sends"][0]["axis"], json("pp"));
}

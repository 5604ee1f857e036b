// The fast algorithms of the checkers against slow ones that follow the
// definitions, on drawn inputs.
#include "lib/planfile/Check.h"
#include "lib/planfile/CheckCoverage.h"
#include "lib/planfile/Trace.h"
#include "test/planfile/ChunkPlan.h"
#include "test/planfile/PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace llmc::planfile;
using namespace llmc::test;

namespace {

using Rng = std::mt19937;

unsigned draw(Rng &rng, unsigned below) { return static_cast<unsigned>(rng() % below); }

// Element by element.
bool coveredOnce(const std::vector<StridedBox> &boxes, int64_t size) {
  std::vector<int> count(static_cast<size_t>(size), 0);
  for (const StridedBox &box : boxes) {
    std::vector<int64_t> index(box.shape.size(), 0);
    while (true) {
      int64_t at = box.offset;
      for (size_t d = 0; d < index.size(); ++d)
        at += index[d] * box.strides[d];
      if (at < 0 || at >= size)
        return false;
      ++count[static_cast<size_t>(at)];
      size_t d = index.size();
      while (d > 0 && ++index[d - 1] == box.shape[d - 1])
        index[--d] = 0;
      if (d == 0)
        break;
    }
  }
  return std::all_of(count.begin(), count.end(), [](int c) { return c == 1; });
}

// Cuts a dense tensor along random dims; the pieces cover it exactly once.
std::vector<StridedBox> drawPartition(Rng &rng, int64_t &size) {
  StridedBox whole;
  size = 1;
  for (unsigned d = 0, rank = 1 + draw(rng, 3); d < rank; ++d) {
    whole.shape.push_back(1 + draw(rng, 6));
    size *= whole.shape.back();
  }
  int64_t stride = size;
  for (int64_t dim : whole.shape)
    whole.strides.push_back(stride /= dim);
  std::vector<StridedBox> boxes = {whole};
  for (unsigned cut = draw(rng, 4); cut-- > 0;) {
    size_t which = draw(rng, static_cast<unsigned>(boxes.size()));
    size_t d = draw(rng, static_cast<unsigned>(whole.shape.size()));
    int64_t dim = boxes[which].shape[d];
    if (dim < 2)
      continue;
    int64_t at = 1 + draw(rng, static_cast<unsigned>(dim - 1));
    StridedBox upper = boxes[which];
    upper.offset += at * upper.strides[d];
    upper.shape[d] -= at;
    boxes[which].shape[d] = at;
    boxes.push_back(upper);
  }
  for (StridedBox &box : boxes) {
    for (size_t d = 0; d < box.shape.size(); ++d) { // the same elements, read backwards
      if (draw(rng, 4) == 0) {
        box.offset += box.strides[d] * (box.shape[d] - 1);
        box.strides[d] = -box.strides[d];
      }
    }
    if (draw(rng, 2)) { // transposed
      std::reverse(box.shape.begin(), box.shape.end());
      std::reverse(box.strides.begin(), box.strides.end());
    }
  }
  return boxes;
}

void damage(Rng &rng, std::vector<StridedBox> &boxes) {
  StridedBox &box = boxes[draw(rng, static_cast<unsigned>(boxes.size()))];
  size_t d = draw(rng, static_cast<unsigned>(box.shape.size()));
  switch (draw(rng, 4)) {
  case 0:
    box.offset += static_cast<int64_t>(draw(rng, 5)) - 2;
    break;
  case 1:
    box.shape[d] = std::max<int64_t>(1, box.shape[d] - 1);
    break;
  case 2:
    box.strides[d] += static_cast<int64_t>(draw(rng, 3)) - 1;
    break;
  case 3:
    boxes.push_back(StridedBox(box));
    break;
  }
}

// Byte by byte: the definition of peakLiveBytes.
uint64_t slowPeak(const ProgramT &program, unsigned index) {
  const StageT &stage = *program.stages[index];
  struct Touch {
    size_t time;
    bool read, write;
  };
  std::vector<std::vector<Touch>> touches(stage.arena_bytes);
  std::vector<bool> persistent(stage.arena_bytes, false);
  auto mark = [&](const BufferRefT &b) {
    std::fill_n(persistent.begin() + static_cast<ptrdiff_t>(b.offset), b.size, true);
  };
  for (const auto &state : stage.states)
    mark(*state->buffer);
  for (const auto &scalar : stage.host_scalars)
    mark(*scalar->buffer);
  size_t time = 0;
  auto touch = [&](const ByteAccess &a) {
    for (uint64_t b = a.begin; b < a.end; ++b) {
      if (touches[b].empty() || touches[b].back().time != time)
        touches[b].push_back({time, false, false});
      touches[b].back().read |= a.read;
      touches[b].back().write |= a.write;
    }
  };
  for (const auto &entry : stage.table)
    for (const auto &inst : stage.procedures[entry->procedure]->instructions) {
      auto message = messageOf(*inst);
      if (message && message->grouped)
        --time; // under way together with the one before
      forEachAccess(*inst, *entry, touch);
      ++time;
    }
  for (const auto &output : stage.outputs)
    touch({output->buffer->offset, output->buffer->offset + output->buffer->size, true, false,
           false});
  std::vector<int64_t> live(time + 1, 0);
  for (uint64_t b = 0; b < stage.arena_bytes; ++b) {
    if (persistent[b]) {
      for (int64_t &l : live)
        ++l;
      continue;
    }
    // A pure write begins a value; all else extends the one there.
    for (size_t i = 0; i < touches[b].size();) {
      size_t begin = touches[b][i].read ? 0 : touches[b][i].time, end = touches[b][i].time;
      for (++i; i < touches[b].size() && touches[b][i].read; ++i)
        end = touches[b][i].time;
      for (size_t t = begin; t <= end; ++t)
        ++live[t];
    }
  }
  return static_cast<uint64_t>(*std::max_element(live.begin(), live.end()));
}

// One stage, no micro-batches to speak of: accesses, records and waits on three streams.
ProgramT drawStreams(Rng &rng, unsigned length) {
  ProgramT program = makePlan({.stages = 1, .microBatches = 1, .dp = 1});
  StageT &stage = *program.stages[0];
  stage.states.clear();
  stage.host_scalars.clear();
  stage.outputs.clear();
  stage.procedures.clear();
  stage.table.clear();
  auto procedure = std::make_unique<ProcedureT>();
  procedure->name = "update";
  procedure->kind = ProcedureKind::Update;
  for (unsigned i = 0; i < length; ++i) {
    auto inst = std::make_unique<InstructionT>();
    inst->stream = static_cast<uint8_t>(draw(rng, 3));
    unsigned kind = draw(rng, 5);
    if (kind < 2) {
      LaunchT launch;
      auto operand = std::make_unique<OperandT>();
      operand->buffer = std::make_unique<BufferRefT>();
      operand->buffer->offset = draw(rng, 12);
      operand->buffer->size = 1 + draw(rng, 4);
      operand->access = static_cast<Access>(1 + draw(rng, 3));
      launch.operands.push_back(std::move(operand));
      inst->body.Set(std::move(launch));
    } else if (kind == 2) {
      RecordT record;
      record.event = draw(rng, 3);
      inst->body.Set(record);
    } else {
      WaitT wait;
      wait.event = draw(rng, 3);
      inst->body.Set(wait);
    }
    procedure->instructions.push_back(std::move(inst));
  }
  stage.procedures.push_back(std::move(procedure));
  stage.table.push_back(std::make_unique<EntryT>());
  stage.arena_bytes = 16;
  return program;
}

// Two accesses of two steps that conflict and that no path of edges joins.
bool slowRace(const ProgramT &program) {
  Trace trace = buildTrace(program, 2);
  size_t n = trace.nodes.size();
  std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n, false));
  for (size_t b = 0; b < n; ++b) // all edges go forward in issue order
    for (size_t a = 0; a < b; ++a)
      if (trace.nodes[a].stream == trace.nodes[b].stream ||
          trace.nodes[b].record == static_cast<int64_t>(a)) {
        reaches[a][b] = true;
        for (size_t c = 0; c < a; ++c)
          reaches[c][b] = reaches[c][b] || reaches[c][a];
      }
  auto accessOf = [&](size_t i) {
    ByteAccess access;
    forEachAccess(*trace.nodes[i].inst, 0, [&](const ByteAccess &a) { access = a; });
    return access;
  };
  for (size_t b = 0; b < n; ++b)
    for (size_t a = 0; a < b; ++a) {
      ByteAccess x = accessOf(a), y = accessOf(b);
      if (!reaches[a][b] && (x.write || y.write) && x.begin < y.end && y.begin < x.end)
        return true;
    }
  return false;
}

} // namespace

TEST(CheckRandom, CoverageEqualsCounting) {
  Rng rng(7);
  int whole = 0, faulty = 0;
  for (int i = 0; i < 4000; ++i) {
    int64_t size;
    std::vector<StridedBox> boxes = drawPartition(rng, size);
    bool damaged = draw(rng, 2);
    if (damaged)
      damage(rng, boxes);
    bool expected = coveredOnce(boxes, size);
    EXPECT_TRUE(damaged || expected) << "the drawn partition is none";
    EXPECT_EQ(!coverageFault(boxes, size).has_value(), expected);
    ++(expected ? whole : faulty);
  }
  EXPECT_TRUE(whole > 500 && faulty > 500);
}

TEST(CheckRandom, CoverageOfLargeTensorsIsFast) {
  // A fused matrix of a billion elements, cut per head.
  int64_t d = 1 << 15, heads = 256, width = d / heads;
  std::vector<StridedBox> boxes;
  for (int64_t i = 0; i < 3; ++i)
    boxes.push_back({i * width, {3 * d, 3 * width, 1}, {d, heads, width}});
  EXPECT_TRUE(!coverageFault(boxes, 3 * d * d));
  boxes[1].offset += 1;
  EXPECT_TRUE(coverageFault(boxes, 3 * d * d).has_value());
}

TEST(CheckRandom, PeakLiveBytesEqualsCounting) {
  for (const PlanShape &shape : std::vector<PlanShape>{
           {}, {.gpipe = true}, {.stages = 3, .microBatches = 6, .launches = 4}}) {
    ProgramT program = makePlan(shape);
    for (unsigned s = 0; s < shape.stages; ++s) {
      EXPECT_EQ(peakLiveBytes(program, s), slowPeak(program, s));
      EXPECT_TRUE(peakLiveBytes(program, s) <= program.stages[s]->arena_bytes);
    }
  }
  for (unsigned stages : {2u, 3u}) {
    auto program = makeChunkPlan({.stages = stages});
    for (unsigned s = 0; s < stages; ++s)
      EXPECT_EQ(peakLiveBytes(*program, s), slowPeak(*program, s));
  }
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    ProgramT program = drawStreams(rng, 30);
    EXPECT_EQ(peakLiveBytes(program, 0), slowPeak(program, 0));
  }
}

TEST(CheckRandom, HappensBeforeEqualsReachability) {
  Rng rng(11);
  int racy = 0, ordered = 0;
  for (int i = 0; i < 3000; ++i) {
    ProgramT program = drawStreams(rng, 4 + draw(rng, 16));
    bool expected = slowRace(program), found = false;
    for (const Finding &finding : checkHappensBefore(program))
      found |= finding.message.find("nothing that orders") != std::string::npos;
    EXPECT_EQ(found, expected);
    ++(expected ? racy : ordered);
  }
  EXPECT_TRUE(racy > 200 && ordered > 200);
}

// States of which ranks hold parts of flat buffers, or some tensors and not others: drawn
// layouts, filled from a file and gathered again.
#include "PlanBuilder.h"
#include "lib/planfile/Check.h"
#include "lib/support/Safetensors.h"
#include "runtime/states/Gather.h"
#include "runtime/states/Weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>

using namespace llmc;
using namespace llmc::test;

namespace {

class Layout {
public:
  explicit Layout(unsigned seed) : random(seed) {}

  // dp, pp, tp, cp; some tensors in flat buffers, experts over cp.
  void draw() {
    program = makeProgram({1 + below(3), 1 + below(2), 1 + below(2), 1 + below(2)}, 1, 1 << 16);
    for (auto &stage : program->stages) {
      uint32_t tensors = 1 + below(5);
      for (uint32_t i = 0; i < tensors; ++i)
        addTensor(*stage);
      if (below(2))
        addExperts(*stage);
      for (int group = 0; group < 2; ++group)
        flatten(*stage);
      place(*stage);
    }
  }

  std::unique_ptr<ProgramT> program;
  std::vector<std::vector<float>> values; // by source

private:
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random() % limit); }
  uint64_t parts(const std::vector<uint32_t> &axes) const {
    uint64_t count = 1;
    for (uint32_t axis : axes)
      count *= program->mesh->axes[axis]->size;
    return count;
  }

  uint32_t addSource(const std::vector<int64_t> &shape) {
    auto source = std::make_unique<SourceTensorT>();
    source->name = "t" + std::to_string(program->sources.size());
    source->shape = shape;
    uint64_t count = 1;
    for (int64_t dim : shape)
      count *= uint64_t(dim);
    auto &list = values.emplace_back(count);
    for (float &value : list)
      value = static_cast<float>(1 + random() % 1000000) * 0.37f;
    program->sources.push_back(std::move(source));
    return static_cast<uint32_t>(program->sources.size() - 1);
  }

  StateShardT &addState(StageT &stage, uint32_t source, std::vector<int64_t> shape,
                        std::vector<int64_t> strides, int64_t offset, bool cut) {
    auto state = std::make_unique<StateShardT>();
    state->name = "s" + std::to_string(count++);
    state->role = StateRole::Parameter;
    state->owner = true;
    size_t cutDim = cut && !shape.empty() ? below(uint32_t(shape.size())) : shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      state->dims.push_back(std::make_unique<DimShardingT>());
      if (d == cutDim)
        state->dims[d]->axes = {2};
      int64_t n = int64_t(parts(state->dims[d]->axes));
      state->local_shape.push_back((shape[d] + n - 1) / n);
    }
    state->global_shape = std::move(shape);
    state->view = std::make_unique<ViewT>();
    state->view->source = source;
    state->view->offset = offset;
    state->view->strides = std::move(strides);
    stage.states.push_back(std::move(state));
    return *stage.states.back();
  }

  // One to three dims; as one state, transposed, or split along the last dim into two.
  void addTensor(StageT &stage) {
    std::vector<int64_t> shape;
    for (uint32_t d = below(3) + 1; d > 0; --d)
      shape.push_back(2 + below(7));
    uint32_t source = addSource(shape);
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t d = shape.size() - 1; d-- > 0;)
      strides[d] = strides[d + 1] * shape[d + 1];
    uint32_t kind = below(3);
    if (kind == 1) {
      std::reverse(shape.begin(), shape.end());
      std::reverse(strides.begin(), strides.end());
    }
    if (kind != 2) {
      addState(stage, source, shape, strides, 0, below(2));
      return;
    }
    int64_t whole = shape.back();
    shape.back() = 1;
    addState(stage, source, shape, strides, 0, below(2));
    shape.back() = whole - 1;
    addState(stage, source, shape, strides, 1, below(2));
  }

  // Two a place over cp, of equal shapes: the first of each place are at one address.
  void addExperts(StageT &stage) {
    uint64_t places = parts({3});
    std::vector<int64_t> shape = {2 + below(4), 3};
    size_t first = stage.states.size();
    for (uint64_t i = 0; i < 2 * places; ++i) {
      StateShardT &state = addState(stage, addSource(shape), shape, {3, 1}, 0, false);
      state.only_axes = {3};
      state.only_at = static_cast<uint32_t>(i / 2);
    }
    bool flat = below(2);
    if (flat)
      stage.flat_groups.push_back(std::make_unique<FlatGroupT>());
    for (uint64_t i = 0; flat && i < 2 * places; ++i)
      putInGroup(stage, *stage.states[first + i], i % 2 * uint64_t(shape[0] * 3));
    if (flat)
      close(stage, 2 * uint64_t(shape[0] * 3), {0});
  }

  // Puts some tensors that are in no group into one over axes that cut none of them.
  void flatten(StageT &stage) {
    auto group = std::make_unique<FlatGroupT>();
    uint64_t end = 0;
    stage.flat_groups.push_back(std::move(group));
    for (auto &state : stage.states) {
      if (state->flat || !state->only_axes.empty() || below(3) == 0)
        continue;
      putInGroup(stage, *state, end);
      uint64_t size = 1;
      for (int64_t dim : state->local_shape)
        size *= uint64_t(dim);
      end += size;
    }
    if (end == 0)
      stage.flat_groups.pop_back();
    else
      close(stage, end, below(2) ? std::vector<uint32_t>{0} : std::vector<uint32_t>{3, 0});
  }
  void putInGroup(StageT &stage, StateShardT &state, uint64_t begin) {
    state.flat = std::make_unique<FlatPartT>();
    state.flat->group = static_cast<uint32_t>(stage.flat_groups.size() - 1);
    state.flat->begin = begin;
  }
  void close(StageT &stage, uint64_t end, std::vector<uint32_t> axes) {
    FlatGroupT &group = *stage.flat_groups.back();
    group.length = (end + parts(axes) - 1) / parts(axes) + below(3);
    group.axes = std::move(axes);
  }

  void place(StageT &stage) {
    uint64_t top = 64;
    for (auto &group : stage.flat_groups) {
      group->buffer = ref(top, group->length * 4);
      top += group->length * 4;
    }
    std::map<uint32_t, uint64_t> tops; // by place of an expert
    for (auto &state : stage.states) {
      uint64_t size = 4;
      for (int64_t dim : state->local_shape)
        size *= uint64_t(dim);
      if (state->flat) {
        const BufferRefT &buffer = *stage.flat_groups[state->flat->group]->buffer;
        state->buffer = ref(buffer.offset, buffer.size);
      } else if (state->only_axes.empty()) {
        state->buffer = ref(top, size);
        top += size;
      } else {
        uint64_t &at = tops.try_emplace(state->only_at, 1 << 15).first->second;
        state->buffer = ref(at, size);
        at += size;
      }
    }
  }

  std::mt19937 random;
  int count = 0;
};

// Returns the floats that `rank` must hold of the states, element by element as the plan file
// describes them, by offset in its arena.
std::map<uint64_t, float> expected(const Layout &layout, uint32_t rank) {
  const ProgramT &program = *layout.program;
  std::vector<uint32_t> at = coordinateOf(*program.mesh, rank);
  auto place = [&](const std::vector<uint32_t> &axes) {
    uint64_t index = 0;
    for (uint32_t axis : axes)
      index = index * program.mesh->axes[axis]->size + at[axis];
    return index;
  };
  const StageT &stage = *program.stages[stageOf(program, rank)];
  std::map<uint64_t, float> bits;
  for (const auto &state : stage.states) {
    if (!state->only_axes.empty() && place(state->only_axes) != state->only_at)
      continue;
    uint64_t size = 1;
    for (int64_t dim : state->local_shape)
      size *= uint64_t(dim);
    for (uint64_t i = 0; i < size; ++i) {
      uint64_t rest = i;
      int64_t source = state->view->offset;
      bool valid = true;
      for (size_t d = state->local_shape.size(); d-- > 0; rest /= uint64_t(state->local_shape[d])) {
        int64_t index = int64_t(place(state->dims[d]->axes)) * state->local_shape[d] +
                        int64_t(rest % uint64_t(state->local_shape[d]));
        valid &= index < state->global_shape[d];
        source += index * state->view->strides[d];
      }
      uint64_t element = i;
      if (state->flat) {
        const FlatGroupT &group = *stage.flat_groups[state->flat->group];
        element = state->flat->begin + i - place(group.axes) * group.length;
        if (element >= group.length) // before or behind what the rank has
          continue;
      }
      bits[state->buffer->offset + element * 4] = valid ? layout.values[state->view->source][source] : 0;
    }
  }
  return bits;
}

TEST(States, DrawnLayoutsGiveTheSourceBack) {
  size_t flat = 0, split = 0, experts = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    Layout layout(seed);
    layout.draw();
    ProgramT &program = *layout.program;
    TemporaryFolder folder;
    std::vector<support::TensorToWrite> tensors;
    for (size_t i = 0; i < program.sources.size(); ++i)
      tensors.push_back({program.sources[i]->name, support::ElementType::F32, program.sources[i]->shape,
                         [&, i](const support::TensorToWrite::Sink &sink) {
                           return sink(layout.values[i].data(), layout.values[i].size() * 4);
                         }});
    ASSERT_TRUE(bool(support::writeSafetensors(folder / "w.safetensors", tensors, {})));
    runtime::ExecutorOptions options;
    options.share = seed % 2;
    auto executor = makeExecutor(program, kNone, options);
    auto weights = runtime::Weights::open(program, {folder / "w.safetensors", 0, ""});
    ASSERT_TRUE(bool(weights)) << weights.message();
    auto filled = weights->fill(*executor);
    ASSERT_TRUE(bool(filled)) << filled.message();
    runtime::SourceStates states(program);
    for (size_t source = 0; source < program.sources.size(); ++source) {
      auto back = runtime::gather(*executor, states, source, StateRole::Parameter);
      ASSERT_TRUE(bool(back)) << back.message() << ", seed " << seed;
      ASSERT_EQ(back->bytes.size(), layout.values[source].size() * 4);
      EXPECT_EQ(std::memcmp(back->bytes.data(), layout.values[source].data(), back->bytes.size()), 0)
          << "seed " << seed << " source " << source;
    }
    for (uint32_t rank = 0; rank < executor->ranks() && !options.share; ++rank)
      for (auto [place, value] : expected(layout, rank))
        ASSERT_EQ(*at<float>(*executor, rank, place), value) << "seed " << seed << " byte " << place;
    for (const Finding &finding : checkConservation(program))
      EXPECT_EQ(finding.message.find("flat group"), std::string::npos) << finding.message;
    for (const auto &stage : program.stages)
      for (const auto &state : stage->states) {
        flat += bool(state->flat);
        experts += !state->only_axes.empty();
        split += state->flat && !state->dims.empty();
      }
  }
  EXPECT_GT(flat, 100u);
  EXPECT_GT(split, 100u);
  EXPECT_GT(experts, 50u);
}

// Checks that each fault of a flat buffer's layout is found, with the message that names it.
TEST(States, FaultsOfFlatBuffersAreFound) {
  auto make = [] {
    Layout layout(0);
    for (unsigned seed = 0;; ++seed) { // some layout of two tensors in one buffer
      layout = Layout(seed);
      layout.draw();
      const StageT &stage = *layout.program->stages[0];
      size_t inFirst = 0;
      for (const auto &state : stage.states)
        inFirst += state->flat && state->flat->group == 0 && state->only_axes.empty();
      if (inFirst > 1 && rankCount(*layout.program->mesh) > 2)
        return std::move(layout.program);
    }
  };
  auto second = [](ProgramT &p) -> StateShardT & {
    for (auto &state : p.stages[0]->states)
      if (state->flat && state->flat->group == 0 && state->flat->begin > 0)
        return *state;
    throw std::logic_error("no second tensor");
  };
  auto said = [](const ProgramT &p) {
    support::Status bounds = checkBounds(p);
    std::string text = bounds.message();
    if (bounds)
      for (const Finding &finding : checkConservation(p))
        text += finding.message + "\n";
    return text;
  };
  struct Break {
    const char *what;
    std::function<void(ProgramT &)> apply;
  };
  const Break cases[] = {
      {"where the tensors before it end", [&](ProgramT &p) { ++second(p).flat->begin; }},
      {"where the tensors before it end", [&](ProgramT &p) { --second(p).flat->begin; }},
      {"are needed", [&](ProgramT &p) { ++p.stages[0]->flat_groups[0]->length; }},
      {"bytes", [&](ProgramT &p) { --p.stages[0]->flat_groups[0]->length; }},
      {"where the tensors before it end",
       [&](ProgramT &p) {
         StateShardT *gone = &second(p);
         uint64_t begin = gone->flat->begin;
         std::erase_if(p.stages[0]->states, [&](const auto &state) {
           return state->flat && state->flat->group == 0 && state->flat->begin < begin;
         });
       }},
      {"of several roles",
       [&](ProgramT &p) { second(p).role = StateRole::Master; }},
      {"in flat group 9", [&](ProgramT &p) { second(p).flat->group = 9; }},
      {"not that of flat group", [&](ProgramT &p) { second(p).buffer->offset += 4; }},
      {"held by place 2", [&](ProgramT &p) { second(p).only_at = 2; }},
      {"bad axes", [&](ProgramT &p) { p.stages[0]->flat_groups[0]->axes = {0, 0}; }},
      {"bad axes", [&](ProgramT &p) { p.stages[0]->flat_groups[0]->axes = {1}; }},
  };
  EXPECT_EQ(said(*make()).find("flat"), std::string::npos) << said(*make());
  for (const Break &one : cases) {
    auto program = make();
    one.apply(*program);
    EXPECT_NE(said(*program).find(one.what), std::string::npos) << one.what << " not in: " << said(*program);
  }
}

} // namespace

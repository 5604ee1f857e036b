// Compares the tables of both plans field by field, then their data flow by last writers.
#include "lib/verify/scaled/Isomorphism.h"

#include "lib/planfile/Trace.h"
#include "lib/support/Error.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace llmc::verify {

using namespace planfile;
using support::text;

namespace {

// Maps each byte range of an arena to its last writer.
class LastWriters {
public:
  static constexpr int64_t kNobody = -1;

  void write(uint64_t begin, uint64_t end, int64_t who) {
    split(begin);
    split(end);
    writers_.erase(writers_.lower_bound(begin), writers_.lower_bound(end));
    writers_[begin] = {end, who};
  }
  // Returns the writers of [begin, end), ascending and unique; kNobody where nothing was written.
  std::vector<int64_t> of(uint64_t begin, uint64_t end) const {
    std::vector<int64_t> found;
    auto at = writers_.upper_bound(begin);
    if (at != writers_.begin() && std::prev(at)->second.end > begin)
      --at;
    uint64_t covered = begin;
    for (; at != writers_.end() && at->first < end; ++at) {
      if (at->first > covered)
        found.push_back(kNobody);
      found.push_back(at->second.who);
      covered = at->second.end;
    }
    if (covered < end)
      found.push_back(kNobody);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

private:
  struct Range {
    uint64_t end;
    int64_t who;
  };
  void split(uint64_t at) {
    auto next = writers_.upper_bound(at);
    if (next == writers_.begin())
      return;
    auto range = std::prev(next);
    if (range->first < at && range->second.end > at) {
      writers_[at] = range->second;
      range->second.end = at;
    }
  }
  std::map<uint64_t, Range> writers_;
};

// Returns a kernel's ops and element types without sizes: "graph.add f32, f32; graph.gelu f32".
std::string structureOf(const std::string &source) {
  std::string out;
  for (size_t i = 0; i < source.size();) {
    size_t close = source.compare(i, 7, "tensor<") == 0 ? source.find('>', i) : std::string::npos;
    if (close == std::string::npos) {
      out += source[i++];
      continue;
    }
    std::string type = source.substr(i + 7, close - i - 7);
    size_t last = type.rfind('x');
    out += last == std::string::npos ? type : type.substr(last + 1);
    i = close + 1;
  }
  return out;
}

// Classifies each stride as 0, 1 or larger.
std::string patternOf(const std::vector<int64_t> &strides) {
  std::string out;
  for (int64_t stride : strides)
    out += stride == 0 ? '0' : stride == 1 ? '1' : 'n';
  return out;
}

template <class T> std::string show(const T &value) {
  std::ostringstream out;
  out << value;
  return out.str();
}
template <class T> std::string show(const std::vector<T> &list) {
  std::string out = "[";
  for (const T &value : list)
    out += (out.size() > 1 ? ", " : "") + show(value);
  return out + "]";
}

class Comparison {
public:
  Comparison(const ProgramT &plan, const ProgramT &twin) : plan(plan), twin(twin) {}
  Isomorphism run(const std::vector<std::string> &mayShrink);

private:
  // Records a difference, if there is one; returns whether the values are equal.
  template <class T> bool same(const std::string &where, const char *what, const T &a, const T &b) {
    if (a == b)
      return true;
    if (++result.count <= 20)
      result.differences.push_back(text(where, ": ", what, " is ", show(a), " in the plan, ",
                                        show(b), " in the scaled-down plan"));
    return false;
  }
  template <class T> bool sameEnum(const std::string &where, const char *what, T a, T b) {
    return same(where, what, int(a), int(b));
  }

  void compareMesh(const std::vector<std::string> &mayShrink);
  void compareModel();
  void compareStage(uint32_t stage);
  void compareState(const std::string &where, const StateShardT &a, const StateShardT &b);
  void compareInstruction(const std::string &where, const InstructionT &a, const InstructionT &b);
  void compareOrigin(const std::string &where, uint32_t a, uint32_t b);
  void compareBody(const std::string &where, const InstructionT &a, const InstructionT &b);
  void compareLaunch(const std::string &where, const LaunchT &a, const LaunchT &b);
  void compareMatmul(const std::string &where, const MatmulT &a, const MatmulT &b);
  void compareDataFlow(uint32_t stage);
  bool padded(const ProgramT &program, const StateShardT &state, size_t dim) const;

  const ProgramT &plan, &twin;
  Isomorphism result;
};

void Comparison::compareMesh(const std::vector<std::string> &mayShrink) {
  if (!same("mesh", "number of axes", plan.mesh->axes.size(), twin.mesh->axes.size()))
    return;
  for (size_t i = 0; i < plan.mesh->axes.size(); ++i) {
    const AxisT &a = *plan.mesh->axes[i], &b = *twin.mesh->axes[i];
    same("mesh", "axis", a.name, b.name);
    bool may = std::find(mayShrink.begin(), mayShrink.end(), a.name) != mayShrink.end();
    if (!may || b.size > a.size || (a.size > 1 && b.size < 2))
      same("mesh", a.name.c_str(), a.size, b.size);
  }
  if (same("mesh", "number of names", plan.mesh->names.size(), twin.mesh->names.size()))
    for (size_t i = 0; i < plan.mesh->names.size(); ++i)
      same("mesh", plan.mesh->names[i]->name.c_str(), plan.mesh->names[i]->axes,
           twin.mesh->names[i]->axes);
}

void Comparison::compareModel() {
  same("step", "schedule", plan.schedule, twin.schedule);
  sameEnum("step", "optimizer", plan.optimizer, twin.optimizer);
  same("step", "rows of a micro-batch", plan.micro_batch, twin.micro_batch);
  same("step", "micro-batches", plan.micro_batches, twin.micro_batches);
  same("step", "stage axis", plan.stage_axis, twin.stage_axis);
  same("model", "layers", plan.model->layers, twin.model->layers);
  if (same("model", "number of inputs", plan.inputs.size(), twin.inputs.size()))
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      const InputBindingT &a = *plan.inputs[i], &b = *twin.inputs[i];
      std::string where = text("input '", a.name, "'");
      same(where, "name", a.name, b.name);
      sameEnum(where, "type", a.dtype, b.dtype);
      same(where, "axes of the rows", a.batch_axes, b.batch_axes);
      sameEnum(where, "default", a.default_value, b.default_value);
      same(where, "permuted dim", a.permuted_dim, b.permuted_dim);
      same(where, "order of blocks", a.block_order, b.block_order);
      if (same(where, "dims that are cut", a.dims.size(), b.dims.size()))
        for (size_t d = 0; d < a.dims.size(); ++d)
          same(where, "axes of a dim", a.dims[d]->axes, b.dims[d]->axes);
      same(where, "rank", a.local_shape.size(), b.local_shape.size());
    }
  if (same("model", "number of source tensors", plan.sources.size(), twin.sources.size()))
    for (size_t i = 0; i < plan.sources.size(); ++i) {
      const SourceTensorT &a = *plan.sources[i], &b = *twin.sources[i];
      same("source tensor", "name", a.name, b.name);
      same(a.name, "aliases", a.aliases, b.aliases);
      same(a.name, "rank", a.shape.size(), b.shape.size());
    }
}

bool Comparison::padded(const ProgramT &program, const StateShardT &state, size_t dim) const {
  int64_t parts = 1;
  for (uint32_t axis : state.dims[dim]->axes)
    parts *= program.mesh->axes[axis]->size;
  return state.local_shape[dim] * parts > state.global_shape[dim];
}

void Comparison::compareState(const std::string &stage, const StateShardT &a,
                              const StateShardT &b) {
  std::string where = text(stage, ", ", toString(a.role), " '", a.name, "'");
  same(where, "name", a.name, b.name);
  sameEnum(where, "role", a.role, b.role);
  sameEnum(where, "type", a.dtype, b.dtype);
  same(where, "owner", a.owner, b.owner);
  same(where, "source", a.view ? int64_t(a.view->source) : -1, b.view ? int64_t(b.view->source) : -1);
  same(where, "axes of the ranks that hold it", a.only_axes, b.only_axes);
  auto partsOf = [](const ProgramT &program, const StateShardT &state) {
    std::vector<uint32_t> sizes;
    for (uint32_t axis : state.only_axes)
      sizes.push_back(program.mesh->axes[axis]->size);
    return sizes;
  };
  if (partsOf(plan, a) == partsOf(twin, b)) // Otherwise tensors are distributed over fewer ranks.
    same(where, "rank that holds it", a.only_at, b.only_at);
  auto groupOf = [](const StateShardT &state) {
    return state.flat ? text("in flat group ", state.flat->group) : std::string("by itself");
  };
  same(where, "place", groupOf(a), groupOf(b));
  if (!same(where, "rank", a.global_shape.size(), b.global_shape.size()) ||
      !same(where, "cut dimensions", a.dims.size(), b.dims.size()))
    return;
  for (size_t d = 0; d < a.dims.size(); ++d) {
    same(where, text("axes of dimension ", d).c_str(), a.dims[d]->axes, b.dims[d]->axes);
    if (a.dims[d]->axes == b.dims[d]->axes)
      same(where, text("padding of dimension ", d).c_str(), padded(plan, a, d), padded(twin, b, d));
  }
}

void Comparison::compareOrigin(const std::string &where, uint32_t a, uint32_t b) {
  const OriginT &x = *plan.origins[a], &y = *twin.origins[b];
  same(where, "source op", x.op, y.op);
  same(where, "source nodes", x.nodes, y.nodes);
  same(where, "tactic", x.tactic, y.tactic);
  same(where, "rule", x.rule, y.rule);
}

void Comparison::compareLaunch(const std::string &where, const LaunchT &a, const LaunchT &b) {
  same(where, "kernel", structureOf(plan.kernels[a.kernel]->source),
       structureOf(twin.kernels[b.kernel]->source));
  if (same(where, "number of operands", a.operands.size(), b.operands.size()))
    for (size_t i = 0; i < a.operands.size(); ++i)
      sameEnum(where, "access", a.operands[i]->access, b.operands[i]->access);
  // Skip scalars without axes: such a scalar is a size, and whether a kernel takes a size from
  // its launch depends on the sizes themselves.
  auto placed = [](const LaunchT &launch) {
    std::vector<std::vector<uint32_t>> scalars;
    for (const auto &scalar : launch.scalars) {
      std::vector<uint32_t> axes;
      for (size_t k = 0; k < scalar->coefs.size(); ++k)
        if (scalar->coefs[k] != 0)
          axes.push_back(k);
      if (!axes.empty())
        scalars.push_back(axes);
    }
    return scalars;
  };
  auto x = placed(a), y = placed(b);
  if (same(where, "number of placed scalars", x.size(), y.size()))
    for (size_t i = 0; i < x.size(); ++i)
      same(where, "axes of a scalar", x[i], y[i]);
}

void Comparison::compareMatmul(const std::string &where, const MatmulT &a, const MatmulT &b) {
  sameEnum(where, "type of a", a.a_type, b.a_type);
  sameEnum(where, "type of b", a.b_type, b.b_type);
  sameEnum(where, "type of c", a.c_type, b.c_type);
  same(where, "accumulate", a.accumulate, b.accumulate);
  same(where, "batched", a.batch > 1, b.batch > 1);
  same(where, "layout of a", patternOf(a.a_strides), patternOf(b.a_strides));
  same(where, "layout of b", patternOf(a.b_strides), patternOf(b.b_strides));
  same(where, "layout of c", patternOf(a.c_strides), patternOf(b.c_strides));
  if (!same(where, "routed", a.routing != nullptr, b.routing != nullptr) || !a.routing)
    return;
  const RoutingT &x = *a.routing, &y = *b.routing;
  sameEnum(where, "form of routing", x.form, y.form);
  same(where, "shared rows of a", x.a_share > 1, y.a_share > 1);
  same(where, "shared rows of b", x.b_share > 1, y.b_share > 1);
}

void Comparison::compareBody(const std::string &where, const InstructionT &a,
                             const InstructionT &b) {
  auto message = [&](const auto &x, const auto &y) {
    same(where, "axis", x.axis, y.axis);
    same(where, "delta", x.delta, y.delta);
    same(where, "channel", x.channel, y.channel);
    same(where, "wrap", x.wrap, y.wrap);
    same(where, "grouped", x.grouped, y.grouped);
    same(where, "parts", x.parts.size(), y.parts.size());
  };
  auto event = [&](const auto &x, const auto &y) {
    same(where, "event", x.event, y.event);
    same(where, "whole step", x.whole_step, y.whole_step);
    same(where, "lane", int(x.lane), int(y.lane));
  };
  switch (a.body.type) {
  case Body::Launch:
    return compareLaunch(where, *a.body.AsLaunch(), *b.body.AsLaunch());
  case Body::Matmul:
    return compareMatmul(where, *a.body.AsMatmul(), *b.body.AsMatmul());
  case Body::Collective: {
    const CollectiveT &x = *a.body.AsCollective(), &y = *b.body.AsCollective();
    sameEnum(where, "kind", x.kind, y.kind);
    sameEnum(where, "reduction", x.reduce, y.reduce);
    sameEnum(where, "type", x.dtype, y.dtype);
    same(where, "axes", x.axes, y.axes);
    same(where, "members", x.members, y.members);
    same(where, "counts of rows", x.rows != nullptr, y.rows != nullptr);
    return;
  }
  case Body::Send:
    return message(*a.body.AsSend(), *b.body.AsSend());
  case Body::Recv:
    return message(*a.body.AsRecv(), *b.body.AsRecv());
  case Body::Feed:
    same(where, "input", a.body.AsFeed()->input, b.body.AsFeed()->input);
    return;
  case Body::Record:
    return event(*a.body.AsRecord(), *b.body.AsRecord());
  case Body::Wait:
    return event(*a.body.AsWait(), *b.body.AsWait());
  case Body::Copy:
  case Body::Fill:
  case Body::NONE:
    return;
  }
}

void Comparison::compareInstruction(const std::string &where, const InstructionT &a,
                                    const InstructionT &b) {
  ++result.instructions;
  same(where, "stream", int(a.stream), int(b.stream));
  sameEnum(where, "phase", a.phase, b.phase);
  compareOrigin(where, a.origin, b.origin);
  if (same(where, "kind", std::string(toString(a.body.type)), std::string(toString(b.body.type))))
    compareBody(where, a, b);
}

// Compares the last writers of all reads along both tables. Requires procedures of equal length.
void Comparison::compareDataFlow(uint32_t number) {
  const StageT &a = *plan.stages[number], &b = *twin.stages[number];
  LastWriters writers[2];
  for (int side = 0; side < 2; ++side) {
    const StageT &stage = side ? b : a;
    int64_t who = LastWriters::kNobody;
    for (const auto &state : stage.states)
      writers[side].write(state->buffer->offset, state->buffer->offset + state->buffer->size, --who);
    for (const auto &scalar : stage.host_scalars)
      writers[side].write(scalar->buffer->offset, scalar->buffer->offset + scalar->buffer->size, --who);
  }
  int64_t next = 0;
  for (size_t row = 0; row < a.table.size(); ++row) {
    const EntryT &entry = *a.table[row];
    const ProcedureT *procedures[2] = {a.procedures[entry.procedure].get(),
                                       b.procedures[entry.procedure].get()};
    for (size_t i = 0; i < procedures[0]->instructions.size(); ++i) {
      std::vector<ByteAccess> accesses[2];
      std::vector<std::vector<int64_t>> reads[2];
      std::vector<bool> overlaps[2];
      for (int side = 0; side < 2; ++side) {
        auto &list = accesses[side];
        forEachAccess(*procedures[side]->instructions[i], entry,
                      [&](const ByteAccess &access) { list.push_back(access); });
        for (size_t k = 0; k < list.size(); ++k) {
          if (list[k].read)
            reads[side].push_back(writers[side].of(list[k].begin, list[k].end));
          for (size_t l = 0; l < k; ++l)
            overlaps[side].push_back(list[k].begin < list[l].end && list[l].begin < list[k].end);
        }
        for (size_t k = 0; k < list.size(); ++k)
          if (list[k].write)
            writers[side].write(list[k].begin, list[k].end, next + int64_t(k));
      }
      next += int64_t(std::max(accesses[0].size(), accesses[1].size()));
      result.reads += reads[0].size();
      if (accesses[0].size() == accesses[1].size() && reads[0] == reads[1] &&
          overlaps[0] == overlaps[1])
        continue;
      same(text("stage ", number, ", procedure '", procedures[0]->name, "', instruction ", i),
           reads[0] == reads[1] ? "overlap of its buffers" : "who wrote what it reads",
           std::string("one"), std::string("another"));
    }
  }
}

void Comparison::compareStage(uint32_t number) {
  const StageT &a = *plan.stages[number], &b = *twin.stages[number];
  std::string where = text("stage ", number);
  size_t before = result.count;
  auto layout = [](const StageT &stage) {
    std::vector<std::string> list;
    for (const auto &chunk : stage.chunks)
      list.push_back(text("layers ", chunk->first_layer, " to ", chunk->last_layer));
    for (const auto &pool : stage.pools)
      list.push_back(text(pool->slots, " slots of chunk ", pool->chunk));
    for (const auto &procedure : stage.procedures)
      list.push_back(text(procedure->name, " of chunk ", procedure->chunk));
    return list;
  };
  same(where, "chunks and slot pools", layout(a), layout(b));
  same(where, "streams", a.streams, b.streams);
  same(where, "events", a.events, b.events);
  auto rows = [](const StageT &stage) {
    std::vector<std::string> list;
    for (const auto &entry : stage.table) {
      std::string row = text(entry->procedure);
      for (uint32_t lane = 0; lane <= entry->more.size(); ++lane) {
        SlotRef at = slotOf(*entry, lane);
        row += text("/", at.micro_batch(), "/", at.pool(), ".", at.slot());
      }
      list.push_back(std::move(row));
    }
    return list;
  };
  same(where, "table (procedure/micro-batch/slot of each lane)", rows(a), rows(b));
  if (same(where, "number of states", a.states.size(), b.states.size()))
    for (size_t i = 0; i < a.states.size(); ++i)
      compareState(where, *a.states[i], *b.states[i]);
  auto groups = [](const StageT &stage) {
    std::vector<std::string> list;
    for (const auto &group : stage.flat_groups)
      list.push_back(text(toString(group->dtype), " over axes ", show(group->axes), ":"));
    std::map<std::pair<uint32_t, uint64_t>, std::string> parts; // by group and first element
    for (const auto &state : stage.states)
      if (state->flat && state->flat->group < list.size())
        parts[{state->flat->group, state->flat->begin}] = state->name;
    for (const auto &[place, name] : parts)
      list[place.first] += " " + name;
    return list;
  };
  same(where, "flat groups", groups(a), groups(b));
  auto names = [](const auto &list) {
    std::vector<std::string> all;
    for (const auto &item : list)
      all.push_back(item->name);
    return all;
  };
  same(where, "host scalars", names(a.host_scalars), names(b.host_scalars));
  same(where, "outputs", names(a.outputs), names(b.outputs));
  same(where, "procedures", names(a.procedures), names(b.procedures));
  for (size_t p = 0; p < std::min(a.procedures.size(), b.procedures.size()); ++p) {
    const ProcedureT &x = *a.procedures[p], &y = *b.procedures[p];
    std::string name = text(where, ", procedure '", x.name, "'");
    sameEnum(name, "kind", x.kind, y.kind);
    same(name, "number of instructions", x.instructions.size(), y.instructions.size());
    for (size_t i = 0; i < std::min(x.instructions.size(), y.instructions.size()); ++i)
      compareInstruction(text(name, ", instruction ", i), *x.instructions[i], *y.instructions[i]);
  }
  if (result.count == before) // Otherwise the rows would not correspond.
    compareDataFlow(number);
}

Isomorphism Comparison::run(const std::vector<std::string> &mayShrink) {
  compareMesh(mayShrink);
  compareModel();
  if (same("plan", "number of stages", plan.stages.size(), twin.stages.size()))
    for (uint32_t stage = 0; stage < plan.stages.size(); ++stage)
      compareStage(stage);
  return std::move(result);
}

} // namespace

Isomorphism compare(const ProgramT &plan, const ProgramT &twin,
                    const std::vector<std::string> &mayShrink) {
  return Comparison(plan, twin).run(mayShrink);
}

} // namespace llmc::verify

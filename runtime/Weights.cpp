#include "runtime/Weights.h"

#include "lib/support/Hash.h"
#include "runtime/Gather.h"
#include "runtime/Random.h"
#include "runtime/Shard.h"
#include "runtime/Team.h"

#include <cstring>
#include <filesystem>
#include <map>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::StateRole;
using support::ElementType;
using support::error;
using support::ok;
using support::shapeText;
using support::Status;
using support::text;

namespace {

ElementType elementType(DType type) {
  switch (type) {
  case DType::F32:
    return ElementType::F32;
  case DType::F64:
    return ElementType::F64;
  case DType::I64:
    return ElementType::I64;
  case DType::I32:
    return ElementType::I32;
  case DType::I1:
    return ElementType::Bool;
  case DType::BF16:
    return ElementType::BF16;
  case DType::F16:
    return ElementType::F16;
  case DType::U8:
    return ElementType::U8;
  }
  return ElementType::F32;
}

bool isDrawn(StateRole role) {
  return role == StateRole::Parameter || role == StateRole::Master;
}

} // namespace

support::Result<Weights> Weights::open(const planfile::ProgramT &program,
                                       const WeightsOptions &options) {
  for (const auto &stage : program.stages)
    for (const auto &state : stage->states)
      if (isDrawn(state->role) && state->dtype != DType::F32 && state->dtype != DType::F64)
        return error("state '", state->name, "' has the type ", toString(state->dtype),
                     ", which cannot be filled");
  Weights weights(program, options.seed);
  bool hasFiles = false;
  for (const auto &source : program.sources)
    hasFiles |= source->file >= 0;
  Status status;
  if (options.weights == "random")
    weights.note_ = text("drawn from seed ", options.seed, " (--weights random)");
  else if (!options.weights.empty())
    status = weights.useFiles(options.weights);
  else if (hasFiles)
    status = weights.useModelFiles(options.folder);
  else
    weights.note_ = text("drawn from seed ", options.seed, " (the model has none)");
  if (!status)
    return status.takeError();
  return weights;
}

Status Weights::useFiles(const std::string &path) {
  support::Result<support::SafetensorsSet> set = support::SafetensorsSet::open(path);
  if (!set)
    return error("--weights: ", set.message());
  std::vector<std::string> missing;
  for (size_t source = 0; source < places_.size(); ++source)
    if (!hasState(program_, source, StateRole::Parameter))
      continue; // nobody asks for it
    else if (Status s = findIn(*set, source, missing); !s)
      return error("--weights '", path, "': ", s.message());
  if (!missing.empty()) {
    std::string names;
    for (size_t i = 0; i < missing.size() && i < 5; ++i)
      names += text(i ? ", " : "", "'", missing[i], "'");
    std::vector<std::string> have = set->names();
    return error("--weights '", path, "': ", missing.size(), " of ", places_.size(),
                 " tensors are missing: ", names, missing.size() > 5 ? ", ..." : "", "; it has ",
                 have.size(), have.empty() ? "" : " tensors such as '" + have[0] + "'");
  }
  sets_.push_back(std::move(*set));
  note_ = text(path, " (", places_.size(), " tensors)");
  return ok();
}

Status Weights::findIn(const support::SafetensorsSet &set, size_t index,
                       std::vector<std::string> &missing) {
  const planfile::SourceTensorT &source = *program_.sources[index];
  std::vector<int64_t> want = source.shape;
  const support::TensorView *found = set.find(source.name);
  std::string name = source.name;
  for (size_t i = 0; !found && i < source.aliases.size(); ++i)
    found = set.find(name = source.aliases[i]);
  bool transposed = false;
  for (size_t i = 0; !found && i < source.transposed_aliases.size(); ++i)
    if ((found = set.find(name = source.transposed_aliases[i]))) {
      transposed = true;
      std::swap(want[0], want[1]);
    }
  if (!found) {
    missing.push_back(source.name);
    return ok();
  }
  if (found->shape != want)
    return error("tensor '", name, "' has the shape ", shapeText(found->shape),
                 ", the model wants ", shapeText(want));
  if (support::isInteger(found->type))
    return error("tensor '", name, "' holds ", support::toString(found->type),
                 ", the model wants numbers with a fraction");
  places_[index] = {found->data, found->type, transposed};
  return ok();
}

Status Weights::useModelFiles(const std::string &folder) {
  namespace fs = std::filesystem;
  std::string names;
  for (const auto &file : program_.files) {
    fs::path stored = file->path;
    std::error_code code;
    std::string path;
    for (const fs::path &candidate : {stored, fs::path(folder) / stored,
                                      fs::path(folder) / stored.filename()})
      if (path.empty() && fs::is_regular_file(candidate, code))
        path = candidate.string();
    if (path.empty())
      return error("the model's weights '", file->path,
                   "' are neither there nor beside the program; give --weights FILE, or "
                   "--weights random");
    support::Result<support::MappedFile> mapped = support::MappedFile::open(path);
    if (!mapped)
      return mapped.takeError();
    if (mapped->size() != file->byte_size)
      return error("'", path, "' has ", mapped->size(), " bytes, it had ", file->byte_size,
                   " when the model was compiled; compile again, or give --weights");
    if (support::hash64(mapped->bytes().data(), mapped->size()) != file->hash)
      return error("'", path, "' has changed since the model was compiled; compile again, or "
                   "give --weights");
    names += (names.empty() ? "" : ", ") + path;
    files_.push_back(std::move(*mapped));
  }
  size_t drawn = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    const planfile::SourceTensorT &source = *program_.sources[i];
    if (source.file < 0) {
      ++drawn;
      continue;
    }
    places_[i] = {files_[source.file].bytes().data() + source.file_offset,
                  elementType(source.dtype), false};
  }
  note_ = text("the model's own, ", names);
  if (drawn > 0)
    note_ += text("; ", drawn, " tensors drawn from seed ", seed_);
  return ok();
}

void Weights::fill(const Executor &executor) const {
  std::vector<std::pair<uint32_t, const planfile::StateShardT *>> tasks;
  for (uint32_t stage = 0; stage < program_.stages.size(); ++stage)
    for (const auto &state : program_.stages[stage]->states)
      if (isDrawn(state->role))
        tasks.emplace_back(stage, state.get());
  Team team(availableCores());
  team.run(static_cast<int64_t>(tasks.size()), [&](int64_t task, unsigned) {
    fillState(executor, tasks[task].first, *tasks[task].second);
  });
}

void Weights::fillState(const Executor &executor, uint32_t stage,
                        const planfile::StateShardT &state) const {
  uint64_t bytes = planfile::byteSize(state.dtype);
  for (int64_t dim : state.local_shape)
    bytes *= static_cast<uint64_t>(dim);
  std::map<std::vector<int64_t>, const std::byte *> done; // shards that a rank has already
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank) {
    if (executor.stageOfRank(rank) != stage)
      continue;
    Shard shard(state, *program_.mesh, planfile::coordinateOf(*program_.mesh, rank));
    std::byte *to = executor.arena(rank) + state.buffer->offset;
    auto [at, isNew] = done.try_emplace(shard.start, to);
    if (!isNew) {
      std::memcpy(to, at->second, bytes);
      continue;
    }
    forEachRun(shard, *state.view,
               [&](int64_t local, int64_t source, int64_t count, int64_t stride) {
                 if (state.dtype == DType::F64)
                   fillRun(state.view->source, source, count, stride,
                           reinterpret_cast<double *>(to) + local);
                 else
                   fillRun(state.view->source, source, count, stride,
                           reinterpret_cast<float *>(to) + local);
               });
  }
}

template <class T>
void Weights::fillRun(size_t index, int64_t first, int64_t count, int64_t stride, T *to) const {
  const planfile::SourceTensorT &source = *program_.sources[index];
  const Place &place = places_[index];
  if (!place.data) {
    uint64_t stream = support::hash64(source.name);
    for (int64_t i = 0; i < count; ++i)
      switch (source.init) {
      case planfile::InitKind::Zeros:
        to[i] = 0;
        break;
      case planfile::InitKind::Ones:
        to[i] = 1;
        break;
      case planfile::InitKind::Normal:
        to[i] = static_cast<T>(source.init_std *
                               normal(seed_, stream, uint64_t(first + i * stride)));
        break;
      }
    return;
  }
  bool same = place.type == (sizeof(T) == 4 ? ElementType::F32 : ElementType::F64);
  if (same && stride == 1 && !place.transposed) {
    std::memcpy(to, place.data + first * sizeof(T), count * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t element = first + i * stride;
    if (place.transposed)
      element = element % source.shape[1] * source.shape[0] + element / source.shape[1];
    to[i] = static_cast<T>(support::readAsDouble(place.type, place.data, element));
  }
}

#include "runtime/states/Weights.h"

#include "lib/planfile/Elements.h"
#include "lib/support/Hash.h"
#include "runtime/states/Gather.h"
#include "runtime/states/Random.h"
#include "runtime/states/ShardReader.h"
#include "runtime/compute/ThreadTeam.h"

#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::StateRole;
using support::error;
using support::ok;
using support::shapeText;
using support::Status;
using support::text;

namespace {

bool isDrawn(StateRole role) {
  return role == StateRole::Parameter || role == StateRole::Master;
}

bool isFloat(DType type) {
  return type == DType::F32 || type == DType::F64 || type == DType::BF16 || type == DType::F16;
}

} // namespace

support::Result<Weights> Weights::open(const planfile::ProgramT &program,
                                       const WeightsOptions &options) {
  for (const auto &stage : program.stages)
    for (const auto &state : stage->states)
      if (isDrawn(state->role) && !isFloat(state->dtype))
        return error("state '", state->name, "' has the type ", toString(state->dtype),
                     ", which cannot be filled; those that can are f32, f64, bf16 and f16");
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

// Returns the items joined by commas, of many only the first five.
static std::string listed(const std::vector<std::string> &items) {
  std::string out;
  for (size_t i = 0; i < items.size() && i < 5; ++i)
    out += text(i ? ", " : "", items[i]);
  return items.size() > 5 ? out + ", ..." : out;
}

// Returns whether a name is that of a tensor of one expert, "...experts.3.w1.weight", as opposed to
// one of all; none if it is of no expert.
static std::optional<bool> isOfOneExpert(const std::string &name) {
  constexpr std::string_view kExperts = "experts.";
  size_t at = name.find(kExperts);
  if (at == std::string::npos || at + kExperts.size() == name.size())
    return std::nullopt;
  return std::isdigit(static_cast<unsigned char>(name[at + kExperts.size()])) != 0;
}

// Says what to do where a file stores the tensors of experts in the other of two ways: the program
// is compiled for one of them. Empty if it does not.
static std::string otherLayout(const std::vector<std::string> &missing,
                               const std::vector<std::string> &have) {
  std::optional<bool> wanted;
  for (auto name = missing.begin(); name != missing.end() && !wanted; ++name)
    wanted = isOfOneExpert(*name);
  for (const std::string &other : have)
    if (auto got = isOfOneExpert(other); wanted && got && *wanted != *got)
      return text("; the file has ", *got ? "a tensor for each expert" : "experts in one tensor",
                  " ('", other, "'), the program was compiled for ",
                  *wanted ? "a tensor for each" : "one tensor of all",
                  "; compile it with --weights of this file");
  return "";
}

std::vector<std::string> Weights::paths() const {
  namespace fs = std::filesystem;
  std::set<std::string> paths;
  std::error_code code;
  for (const support::ReadableFile &file : files_) {
    paths.insert(file.path());
    // Without these files the tensors are not found, and quantized ones cannot be read.
    for (std::string_view name : {std::string_view("config.json"), support::kSafetensorsIndex})
      if (fs::path beside = fs::path(file.path()).parent_path() / name; fs::exists(beside, code))
        paths.insert(beside.string());
  }
  return {paths.begin(), paths.end()};
}

Status Weights::useFiles(const std::string &path) {
  support::Result<support::Checkpoint> checkpoint = support::Checkpoint::open(path);
  if (!checkpoint)
    return error("--weights '", path, "': ", checkpoint.message());
  std::vector<std::string> missing, wrong;
  SourceStates states(program_);
  for (size_t source = 0; source < locations_.size(); ++source)
    if (Status s = findIn(*checkpoint, source, hasState(states, source, StateRole::Parameter),
                          missing, wrong);
        !s)
      return error("--weights '", path, "': ", s.message());
  std::string problems;
  if (!wrong.empty())
    problems =
        text(wrong.size(), " of ", locations_.size(), " tensors do not fit: ", listed(wrong));
  if (!missing.empty()) {
    std::vector<std::string> have = checkpoint->set().names();
    problems += text(problems.empty() ? "" : "; ", missing.size(), " of ", locations_.size(),
                     " tensors are missing: ", listed(missing), "; it has ", have.size(),
                     have.empty() ? "" : " tensors such as '" + have[0] + "'", otherLayout(missing, have));
  }
  if (!problems.empty())
    return error("--weights '", path, "': ", problems);
  note_ = text(path, " (", locations_.size(), " tensors", dequantised(), ")");
  if (std::string notes = checkpoint->notes(); !notes.empty())
    note_ += "; " + notes;
  return ok();
}

// Returns a note such as ", 3 of them dequantised"; empty if none is.
std::string Weights::dequantised() const {
  size_t count = 0;
  for (const TensorLocation &place : locations_)
    count += place.file >= 0 && support::decodeTable(place.type) ? 1 : 0;
  return count ? text(", ", count, " of them dequantised") : "";
}

Status Weights::findIn(support::Checkpoint &checkpoint, size_t index, bool isHeld,
                       std::vector<std::string> &missing, std::vector<std::string> &wrong) {
  const planfile::SourceTensorT &source = *program_.sources[index];
  support::TensorNames names{{source.name}, source.transposed_aliases};
  for (const std::vector<std::string> *more : {&source.aliases, &source.older_names})
    names.plain.insert(names.plain.end(), more->begin(), more->end());
  auto found = checkpoint.find(names, source.shape);
  if (!isHeld)
    return ok(); // no state needs its values
  if (!found) {
    wrong.push_back(found.message());
    return ok();
  }
  if (!*found) {
    missing.push_back("'" + source.name + "'");
    return ok();
  }
  const support::TensorLocation &place = **found;
  const auto &files = checkpoint.set().files();
  support::Result<int> file = openFile(files[place.file].path()), scales = -1;
  if (file && place.scales)
    scales = openFile(files[place.scales->file].path());
  if (!file || !scales)
    return file ? scales.takeError() : file.takeError();
  locations_[index] = {*file, place.offset, place.type, place.transposed, *scales,
                    place.scales.value_or(support::ScaleLocation())};
  return ok();
}

support::Result<int> Weights::openFile(const std::string &path) {
  for (size_t i = 0; i < files_.size(); ++i)
    if (files_[i].path() == path)
      return static_cast<int>(i);
  support::Result<support::ReadableFile> file = support::ReadableFile::open(path);
  if (!file)
    return file.takeError();
  files_.push_back(std::move(*file));
  return static_cast<int>(files_.size()) - 1;
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
    support::Result<support::ReadableFile> opened = support::ReadableFile::open(path);
    if (!opened)
      return opened.takeError();
    if (opened->size() != file->byte_size)
      return error("'", path, "' has ", opened->size(), " bytes, it had ", file->byte_size,
                   " when the model was compiled; compile again, or give --weights");
    hashes_.push_back(file->hash);
    names += (names.empty() ? "" : ", ") + path;
    files_.push_back(std::move(*opened));
  }
  size_t drawn = 0;
  for (size_t i = 0; i < locations_.size(); ++i) {
    const planfile::SourceTensorT &source = *program_.sources[i];
    if (source.file < 0) {
      ++drawn;
      continue;
    }
    TensorLocation &place = locations_[i];
    place = {source.file, source.file_offset, planfile::elementType(source), source.transposed, -1, {}};
    if (const planfile::ScalesT *scales = source.scales.get()) {
      place.scalesFile = static_cast<int>(scales->file);
      place.scales = {scales->file, scales->file_offset, planfile::elementType(*scales),
                      scales->block[0], scales->block[1]};
    }
  }
  note_ = text("the model's own, ", names);
  if (std::string quantised = dequantised(); !quantised.empty())
    note_ += " (" + quantised.substr(2) + ")";
  if (drawn > 0)
    note_ += text("; ", drawn, " tensors drawn from seed ", seed_);
  return ok();
}

std::unique_ptr<WeightsCheck> Weights::check() const {
  std::vector<WeightsCheck::File> files;
  for (size_t i = 0; i < hashes_.size(); ++i)
    files.push_back({&files_[i], hashes_[i]});
  return std::make_unique<WeightsCheck>(std::move(files));
}

std::string Weights::sourceNameOf(uint32_t stage, const planfile::StateShardT &state) const {
  return program_.sources[planfile::viewOf(*program_.stages[stage], state)->source]->name;
}

Status Weights::fill(const Executor &executor, support::Progress::Phase *phase) const {
  std::vector<std::pair<uint32_t, const planfile::StateShardT *>> tasks;
  for (uint32_t stage = 0; stage < program_.stages.size(); ++stage)
    for (const auto &state : program_.stages[stage]->states)
      if (isDrawn(state->role))
        tasks.emplace_back(stage, state.get());
  if (phase)
    phase->expect(tasks.size() * (executor.ranks() / program_.stages.size()));
  std::vector<Status> results(tasks.size());
  ThreadTeam team(availableCores());
  team.run(static_cast<int64_t>(tasks.size()), [&](int64_t task, unsigned) {
    results[task] = fillState(executor, tasks[task].first, *tasks[task].second, phase);
  });
  for (size_t i = 0; i < tasks.size(); ++i)
    if (!results[i])
      return error("weights of '", sourceNameOf(tasks[i].first, *tasks[i].second),
                   "': ", results[i].message());
  executor.seal();
  return ok();
}

Status Weights::fillState(const Executor &executor, uint32_t stage,
                          const planfile::StateShardT &state,
                          support::Progress::Phase *phase) const {
  uint64_t size = planfile::byteSize(state.dtype);
  const planfile::ViewT &view = *planfile::viewOf(*program_.stages[stage], state);
  // Maps the start of a shard and the first element held of it to the bytes of a rank that
  // holds it already, from which later ranks copy.
  std::map<std::pair<std::vector<int64_t>, int64_t>, const std::byte *> done;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank) {
    if (executor.stageOfRank(rank) != stage)
      continue;
    if (phase)
      phase->add(1);
    if (!executor.fills(rank, state))
      continue;
    std::vector<uint32_t> coordinate = planfile::coordinateOf(*program_.mesh, rank);
    HeldRange held = heldRangeOf(program_, stage, state, coordinate);
    if (held.count == 0)
      continue;
    std::byte *to = executor.stateOf(rank, state);
    Shard shard(state, *program_.mesh, coordinate);
    auto [at, isNew] = done.try_emplace({shard.start, held.first}, to);
    uint64_t place = static_cast<uint64_t>(held.at) * size;
    Status status;
    if (!isNew)
      std::memcpy(to + place, at->second + place, static_cast<uint64_t>(held.count) * size);
    else
      status = fillHeld(heldBoxes(program_, stage, state, coordinate), view, state.dtype, to);
    if (!status)
      return status;
  }
  return ok();
}

// Fills the boxes that a rank holds of a state of type `type`, whose buffer begins at `to`.
Status Weights::fillHeld(const std::vector<HeldBox> &boxes, const planfile::ViewT &view,
                         DType type, std::byte *to) const {
  switch (type) {
  case DType::F64:
    return fillBoxes(boxes, view, reinterpret_cast<double *>(to));
  case DType::BF16:
    return fillBoxes(boxes, view, reinterpret_cast<support::BfloatNumber *>(to));
  case DType::F16:
    return fillBoxes(boxes, view, reinterpret_cast<support::HalfNumber *>(to));
  default:
    return fillBoxes(boxes, view, reinterpret_cast<float *>(to));
  }
}

template <class T>
Status Weights::fillBoxes(const std::vector<HeldBox> &boxes, const planfile::ViewT &view,
                          T *to) const {
  for (const HeldBox &box : boxes)
    if (Status s = fillShard(box.shard, view, to + box.at); !s)
      return s;
  return ok();
}

template <class T>
Status Weights::fillShard(const Shard &shard, const planfile::ViewT &view, T *to) const {
  const TensorLocation &place = locations_[view.source];
  if (place.file >= 0) {
    StoredTensor tensor{&files_[place.file], place.offset, place.type,
                        program_.sources[view.source]->shape, place.transposed};
    if (place.scalesFile >= 0)
      tensor.scales = {&files_[place.scalesFile], place.scales.offset, place.scales.type,
                       place.scales.rows, place.scales.columns};
    return readShard(tensor, shard, view, to);
  }
  forEachRun(shard, view, [&](int64_t local, int64_t source, int64_t count, int64_t stride) {
    draw(view.source, source, count, stride, to + local);
  });
  return ok();
}

template <class T>
void Weights::draw(size_t index, int64_t first, int64_t count, int64_t stride, T *to) const {
  const planfile::SourceTensorT &source = *program_.sources[index];
  uint64_t stream = support::hash64(source.name);
  for (int64_t i = 0; i < count; ++i)
    switch (source.init) {
    case planfile::InitKind::Zeros:
      to[i] = T(0.0f);
      break;
    case planfile::InitKind::Ones:
      to[i] = T(1.0f);
      break;
    case planfile::InitKind::Normal:
      to[i] = static_cast<T>(source.init_std *
                             normal(seed_, stream, uint64_t(first + i * stride)));
      break;
    }
}

// Compares offsets, values and drawn distributions of source tensors.
#include "lib/verify/source/StateChecks.h"

#include "lib/support/ElementType.h"
#include "lib/verify/subject/RunPlan.h"
#include "runtime/states/SourceStates.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace llmc::verify {

using planfile::InitKind;
using planfile::ProgramT;
using planfile::SourceTensorT;

namespace {

// Returns every tensor of the file under a name of the source, and whether it is the transpose of
// what the source names.
std::vector<std::pair<const FileTensor *, bool>> named(const SourceTensorT &source,
                                                       const FileModel &file) {
  std::vector<std::pair<const FileTensor *, bool>> found;
  auto add = [&](const std::string &name, bool transposed) {
    if (const FileTensor *tensor = file.find(name))
      found.push_back({tensor, transposed});
  };
  // Take the older names last: what an exporter made has a name of its own, if the file has it at
  // all.
  add(source.name, source.transposed);
  for (const std::string &name : source.aliases)
    add(name, source.transposed);
  for (const std::string &name : source.transposed_aliases)
    add(name, !source.transposed);
  if (found.empty())
    for (const std::string &name : source.older_names)
      add(name, source.transposed);
  return found;
}

std::vector<int64_t> turned(std::vector<int64_t> shape, bool transposed) {
  if (transposed)
    std::reverse(shape.begin(), shape.end());
  return shape;
}

FileType typeOf(const SourceTensorT &source) {
  if (source.coding != planfile::Coding::Plain)
    return FileType::Other;
  switch (source.dtype) {
  case planfile::DType::F32:
    return FileType::F32;
  case planfile::DType::F64:
    return FileType::F64;
  case planfile::DType::F16:
    return FileType::F16;
  case planfile::DType::BF16:
    return FileType::BF16;
  default:
    return FileType::Other;
  }
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t dim : shape)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text.empty() ? "a scalar" : text;
}

// Returns where the plan records that the source is.
FileTensor placeOf(const ProgramT &program, const SourceTensorT &source) {
  FileTensor place;
  place.name = source.name;
  place.path = program.files[source.file]->path;
  place.offset = source.file_offset;
  place.shape = turned(source.shape, source.transposed);
  place.type = typeOf(source);
  return place;
}

// Compares about 61 elements, the first and the last among them; returns the error's text, or "".
std::string compareSome(const FileTensor &a, const FileTensor &b, bool transposed) {
  int64_t count = a.count(), step = std::max<int64_t>(1, count / 61);
  int64_t rows = a.shape.size() == 2 ? a.shape[0] : 1, columns = count / std::max<int64_t>(1, rows);
  for (int64_t i = 0; i < count; i = i + 1 < count ? std::min(i + step, count - 1) : count) {
    int64_t other = transposed ? i % columns * rows + i / columns : i;
    auto x = readElements(a, i, 1), y = readElements(b, other, 1);
    if (!x || !y)
      return x ? y.message() : x.message();
    bool same = x->front() == y->front() || (std::isnan(x->front()) && std::isnan(y->front()));
    if (!same)
      return "element " + std::to_string(i) + " is " + std::to_string(x->front()) + " there, and " +
             std::to_string(y->front()) + " in '" + b.name + "'";
  }
  return "";
}

bool samePlace(const FileTensor &a, const FileTensor &b) {
  std::error_code code;
  return a.offset == b.offset && a.shape == b.shape && a.type == b.type &&
         std::filesystem::equivalent(a.path, b.path, code);
}

std::string whereText(const FileTensor &place) {
  return "byte " + std::to_string(place.offset) + " of " +
         std::filesystem::path(place.path).filename().string();
}

void checkPlace(const ProgramT &program, const SourceTensorT &source, const FileModel &file,
                Faults &faults) {
  FileTensor place = placeOf(program, source);
  auto tensors = named(source, file);
  if (tensors.empty()) {
    const FileTensor *there = file.at(place.path, place.offset);
    if (!there)
      faults.push_back("'" + source.name + "' is read at " + whereText(place) +
                       ", where no tensor begins");
    else if (turned(there->shape, false) != place.shape || there->type != place.type)
      faults.push_back("'" + source.name + "' of " + shapeText(place.shape) + " is read at " +
                       whereText(place) + ", where '" + there->name + "' of " +
                       shapeText(there->shape) + " is");
    return;
  }
  for (auto [tensor, transposed] : tensors) {
    bool turnedHere = transposed != source.transposed;
    if (turned(tensor->shape, turnedHere) != place.shape || tensor->type != place.type) {
      faults.push_back("'" + source.name + "' of " + shapeText(place.shape) +
                       " has another shape or type than '" + tensor->name + "' of " +
                       shapeText(tensor->shape) + " in its file");
      continue;
    }
    if (!turnedHere && samePlace(place, *tensor))
      continue;
    if (std::string fault = compareSome(place, *tensor, turnedHere); !fault.empty())
      faults.push_back("'" + source.name + "' is read at " + whereText(place) + ", the file has '" +
                       tensor->name + "' at " + whereText(*tensor) + ": " + fault);
  }
}

} // namespace

Faults checkPlaces(const ProgramT &program, const FileModel &file) {
  Faults faults;
  for (const auto &source : program.sources)
    if (source->file >= 0 && typeOf(*source) != FileType::Other)
      checkPlace(program, *source, file, faults);
  return faults;
}

namespace {

// Returns the type that ranks hold the source in at its most exact, by which loading rounds it.
planfile::DType typeHeld(const runtime::SourceStates &states, size_t source) {
  for (const runtime::OwnedState &owned : states.of(source))
    if (owned.state->role == planfile::StateRole::Parameter && owned.isWeight)
      return owned.state->dtype;
  return planfile::DType::F32;
}

// Rounds a number of the file as loading does: to float32, then to the type of a 16-bit float.
double rounded(double value, planfile::DType type) {
  auto single = static_cast<float>(value);
  if (type == planfile::DType::BF16)
    return support::bfloatToFloat(support::floatToBfloat(single));
  if (type == planfile::DType::F16)
    return support::halfToFloat(support::floatToHalf(single));
  return single;
}

} // namespace

Faults checkValues(const ProgramT &program, const FileModel &file, const NamedTensors &ranks) {
  Faults faults;
  runtime::SourceStates states(program);
  for (size_t index = 0; index < program.sources.size(); ++index) {
    const auto &source = program.sources[index];
    planfile::DType type = typeHeld(states, index);
    auto held = ranks.find(source->name);
    if (source->file < 0 || held == ranks.end() || typeOf(*source) == FileType::Other)
      continue;
    auto tensors = named(*source, file);
    FileTensor place = placeOf(program, *source);
    if (tensors.empty())
      tensors.push_back({&place, source->transposed});
    for (auto [tensor, transposed] : tensors) {
      int64_t count = tensor->count();
      int64_t rows = tensor->shape.size() == 2 ? tensor->shape[0] : 1;
      int64_t columns = count / std::max<int64_t>(1, rows);
      auto values = readElements(*tensor, 0, count);
      if (!values || count != held->second.size()) {
        faults.push_back("'" + source->name + "': " +
                         (values ? "ranks hold " + shapeText(held->second.shape) : values.message()));
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        int64_t own = transposed ? i % columns * rows + i / columns : i;
        double expected = rounded((*values)[i], type);
        double got = held->second.data[own];
        if (got == expected || (std::isnan(got) && std::isnan(expected)))
          continue;
        faults.push_back("ranks hold " + std::to_string(got) + " as element " + std::to_string(own) +
                         " of '" + source->name + "', the file has " + std::to_string(expected) +
                         " in '" + tensor->name + "'");
        break;
      }
    }
  }
  return faults;
}

//===-- Drawn --------------------------------------------------------------===//

namespace {

struct Rule {
  InitKind kind;
  double deviation = 0; // standard deviation, of Normal
};

bool endsWith(const std::string &name, std::string_view end) { return name.ends_with(end); }

// Returns the initialization that `transformers` implements in its models, by config.json.
Rule ruleOf(const nlohmann::json &config, const SourceTensorT &source) {
  std::string type = config.value("model_type", "");
  double range = config.value("initializer_range", 0.02);
  if (type == "gpt_oss" && (endsWith(source.name, "sinks") || endsWith(source.name, "router.bias")))
    return {InitKind::Normal, range};
  if (endsWith(source.name, "bias"))
    return {InitKind::Zeros};
  if (source.shape.size() == 1) // the scale of a norm; Gemma stores scale - 1
    return {type.starts_with("gemma") ? InitKind::Zeros : InitKind::Ones};
  if (type == "gpt2" && endsWith(source.name, "c_proj.weight")) {
    double layers = config.contains("n_layer") ? config["n_layer"].get<double>()
                                               : config.value("num_hidden_layers", 12.0);
    return {InitKind::Normal, range / std::sqrt(2 * layers)};
  }
  return {InitKind::Normal, range};
}

std::string nameOf(InitKind kind) {
  return kind == InitKind::Zeros ? "zeros" : kind == InitKind::Ones ? "ones" : "normal numbers";
}

// Allows each estimate six standard deviations of its sampling error.
constexpr double kSigmas = 6;

std::string faultOfValues(const Tensor &value, const Rule &rule) {
  double n = double(value.size());
  if (rule.kind != InitKind::Normal) {
    double due = rule.kind == InitKind::Ones;
    auto other = std::find_if(value.data.begin(), value.data.end(),
                              [&](double x) { return x != due; });
    return other == value.data.end() ? "" : "has a " + std::to_string(*other);
  }
  double sum = 0, squares = 0, largest = 0;
  for (double x : value.data) {
    sum += x;
    squares += x * x;
    largest = std::max(largest, std::abs(x));
  }
  double deviation = std::sqrt(squares / n);
  if (std::abs(sum / n) > kSigmas * rule.deviation / std::sqrt(n))
    return "has the mean " + std::to_string(sum / n);
  if (std::abs(squares / n / (rule.deviation * rule.deviation) - 1) > kSigmas * std::sqrt(2 / n) &&
      n >= 64)
    return "has the deviation " + std::to_string(deviation) + ", not " +
           std::to_string(rule.deviation);
  if (largest > rule.deviation * (std::sqrt(2 * std::log(n + 1)) + kSigmas))
    return "has an element " + std::to_string(largest);
  return "";
}

} // namespace

Faults checkDrawn(const ProgramT &program, const std::string &text, const NamedTensors &values) {
  Faults faults;
  nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
  std::map<std::vector<double>, std::string> seen; // first elements of each drawn tensor
  for (const auto &source : program.sources) {
    if (source->file >= 0)
      continue;
    Rule own{source->init, source->init_std};
    Rule rule = config.is_object() ? ruleOf(config, *source) : own;
    std::string what = "'" + source->name + "' of " + shapeText(source->shape);
    bool same = own.kind == rule.kind &&
                (own.kind != InitKind::Normal ||
                 std::abs(own.deviation - rule.deviation) <= 1e-9 * rule.deviation);
    if (!same)
      faults.push_back(what + " is drawn as " + nameOf(own.kind) + " of deviation " +
                       std::to_string(own.deviation) + ", the architecture's rule is " +
                       nameOf(rule.kind) + " of deviation " + std::to_string(rule.deviation));
    auto value = values.find(source->name);
    if (value == values.end() || value->second.size() == 0)
      continue;
    const Tensor &tensor = value->second;
    if (std::string fault = faultOfValues(tensor, rule); !fault.empty())
      faults.push_back(what + " " + fault);
    if (rule.kind != InitKind::Normal || tensor.size() < 8)
      continue;
    std::vector<double> head(tensor.data.begin(), tensor.data.begin() + 8);
    auto [it, isNew] = seen.try_emplace(head, source->name);
    if (!isNew)
      faults.push_back(what + " is drawn as '" + it->second + "' is");
  }
  return faults;
}

//===-- All ----------------------------------------------------------------===//

namespace {

void addCheck(Report &report, const char *name, const std::string &subject, const Faults &faults) {
  std::string note;
  for (size_t i = 0; i < faults.size() && i < 20; ++i)
    note += faults[i] + "\n";
  report.add(name, subject, double(faults.size()), 0, note);
}

std::string countText(size_t count) {
  return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
}

// Compares elements; two NaN are equal.
bool areSame(const Tensor &a, const Tensor &b) {
  return a.shape == b.shape && std::equal(a.data.begin(), a.data.end(), b.data.begin(),
                                          [](double x, double y) {
                                            return x == y || (std::isnan(x) && std::isnan(y));
                                          });
}

// Lists the tensors that all ranks draw otherwise than one rank does.
Faults compareDraws(const NamedTensors &one, const NamedTensors &all) {
  Faults faults;
  for (const auto &[name, value] : one) {
    auto other = all.find(name);
    if (other == all.end() || !areSame(other->second, value))
      faults.push_back("'" + name + "' is not what one rank draws");
  }
  return faults;
}

} // namespace

void checkStates(const Subject &subject, const Subject *one, uint64_t seed, Report &report) {
  const ProgramT &program = *subject.program;
  FileModel file;
  std::set<std::string> paths;
  for (const auto &entry : program.files)
    paths.insert(entry->path);
  std::string config = program.model->config_json;
  std::filesystem::path model = subject.options.model;
  if (model.extension() == ".onnx")
    paths.insert(model.string());
  Faults unread;
  for (const std::string &path : paths)
    if (support::Status status = addFile(path, file); !status)
      unread.push_back(status.message());
  size_t stored = 0;
  for (const auto &source : program.sources)
    stored += source->file >= 0;
  if (stored) {
    Faults faults = checkPlaces(program, file);
    faults.insert(faults.begin(), unread.begin(), unread.end());
    addCheck(report, "states:file", countText(stored), faults);
  }
  if (mlir::ModuleOp imported = subject.at(Phase::Import))
    addCheck(report, "states:wiring", "imported graph", checkWiring(imported, file, config));
  NamedTensors values;
  if (one) {
    std::string folder = model.parent_path().string();
    auto ranks = initialWeights(program, *subject.kernels, seed, folder);
    auto alone = initialWeights(*one->program, *one->kernels, seed, folder);
    Faults faults;
    if (!ranks || !alone)
      faults.push_back(ranks ? alone.message() : ranks.message());
    else
      faults = checkValues(program, file, *ranks);
    if (ranks && alone) {
      for (std::string &fault : compareDraws(*alone, *ranks))
        faults.push_back(std::move(fault));
      values = std::move(*ranks);
    }
    addCheck(report, "states:ranks", countText(program.sources.size()), faults);
  }
  if (stored < program.sources.size())
    addCheck(report, "states:drawn", countText(program.sources.size() - stored),
             checkDrawn(program, config, values));
}

} // namespace llmc::verify

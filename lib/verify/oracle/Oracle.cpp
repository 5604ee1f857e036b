// Writes weights and rows to a temporary folder, runs oracle.py there, and compares its results.
#include "lib/verify/oracle/Oracle.h"

#include "dialects/graph/Evaluate.h"
#include "dialects/graph/GraphAttrs.h"
#include "lib/support/File.h"
#include "lib/support/OutputFile.h"
#include "lib/support/Safetensors.h"
#include "lib/verify/oracle/OracleScripts.h"
#include "lib/verify/interpret/Sources.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

#include <filesystem>
#include <map>

using namespace mlir;
namespace fs = std::filesystem;

namespace llmc::verify {
namespace {

using support::error;
using support::Result;
using support::Status;

// Bounds results of ONNX Runtime, which computes in float32: after some hundred layers a value is
// off by 1e-6 to 1e-5.
constexpr double kFloat32 = 1e-4;
// Bounds results of a file that computes in float16 or bfloat16, with 8 to 11 bits.
constexpr double kNarrow = 2e-2;
// Bounds results that both sides compute in double. What is left are constants that the file's
// readers round to float32 at other points: tables of angles, roots and reciprocals, off by 6e-8
// each. Over all files of test/data that were measured, gradients are off by up to 3e-7.
constexpr double kDouble = 1e-6;
// Bounds gradients: one that nearly cancels, such as that of a key's bias, is measured against a
// thousandth of all gradients, and so are the errors of those constants. 2e-6 was measured.
constexpr double kGradient = 1e-5;

// Owns a temporary folder and removes it.
class TemporaryFolder {
public:
  static Result<TemporaryFolder> make() {
    llvm::SmallString<128> path;
    if (std::error_code code = llvm::sys::fs::createUniqueDirectory("llmc-oracle", path))
      return error("cannot make a temporary folder: ", code.message());
    return TemporaryFolder(path.str().str());
  }
  TemporaryFolder(TemporaryFolder &&other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder &operator=(TemporaryFolder &&) = delete;
  ~TemporaryFolder() {
    std::error_code code;
    if (!path_.empty())
      fs::remove_all(path_, code);
  }
  std::string file(const std::string &name) const { return (fs::path(path_) / name).string(); }
  const std::string &path() const { return path_; }

private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

nlohmann::json namesOf(Operation *op, StringRef attribute) {
  nlohmann::json names = nlohmann::json::array();
  if (auto list = op->getAttrOfType<ArrayAttr>(attribute))
    for (auto name : list.getAsRange<StringAttr>())
      names.push_back(name.str());
  return names;
}

// Returns the name in the file of the input that training calls input_ids.
std::string nameOfTokens(ModuleOp imported) {
  auto forward = imported.lookupSymbol<func::FuncOp>("forward");
  for (BlockArgument argument : forward.getArguments())
    if (forward.getArgAttr(argument.getArgNumber(), graph::kInput))
      if (auto name = dyn_cast<NameLoc>(argument.getLoc()))
        return name.getName().str();
  return "input_ids";
}

nlohmann::json requestOf(const Reference &reference, ModuleOp imported) {
  nlohmann::json sources = nlohmann::json::array();
  for (auto source : imported.getOps<graph::SourceOp>()) {
    auto [file, offset] = storedLocation(imported, source);
    sources.push_back({{"name", source.getSymName().str()},
                       {"file", file.empty() ? "" : fs::absolute(file).string()},
                       {"offset", offset},
                       {"aliases", namesOf(source, "aliases")},
                       {"older_names", namesOf(source, "older_names")},
                       {"transposed_aliases", namesOf(source, "transposed_aliases")}});
  }
  auto rows = imported->getAttrOfType<IntegerAttr>(graph::kBatch);
  return {{"model", fs::absolute(reference.one.options.model).string()},
          {"infer", reference.one.options.infer},
          {"rows", rows ? rows.getInt() : 1},
          {"tokens", nameOfTokens(imported)},
          {"sources", sources}};
}

Status writeArrays(const std::string &path, const Trial &trial) {
  std::vector<support::TensorToWrite> list;
  auto add = [&](const std::string &kind, const NamedTensors &tensors) {
    for (const auto &[name, tensor] : tensors)
      list.push_back({kind + ":" + name, support::ElementType::F64, tensor.shape,
                      [data = &tensor.data](const auto &sink) {
                        return sink(data->data(), data->size() * sizeof(double));
                      }});
  };
  add("weight", trial.weights);
  add("input", trial.steps.front().inputs);
  return support::writeSafetensors(path, list);
}

std::string lastLines(const std::string &path, size_t most) {
  auto text = support::readFile(path);
  if (!text)
    return "";
  std::string lines = text->substr(text->size() > most ? text->size() - most : 0);
  return llvm::StringRef(lines).rtrim().str();
}

bool isOnnx(const CompileOptions &options) {
  return llvm::StringRef(options.model).ends_with(".onnx");
}

support::Error isNoPython(const std::string &python) {
  return error("--oracle ", python, ": this is no Python, it did not run a script; name one with "
               "the packages of scripts/oracles.txt");
}

Status runScript(const std::string &python, const TemporaryFolder &folder,
                 std::vector<std::string> arguments) {
  auto program = llvm::sys::findProgramByName(python);
  if (!program || !llvm::sys::fs::can_execute(*program))
    return error("--oracle ", python, ": there is no such program");
  for (const auto &[name, text] : kOracleScripts)
    if (Status s = support::writeFile(folder.file(name), std::string(text)); !s)
      return s;
  std::string script = folder.file("oracle.py"), log = folder.file("log"), problem;
  std::vector<llvm::StringRef> words{*program, script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(log),
                                                llvm::StringRef(log)};
  int code = llvm::sys::ExecuteAndWait(*program, words, std::nullopt, redirects, 0, 0, &problem);
  if (code == 0)
    return support::ok();
  std::string said = problem.empty() ? lastLines(log, 1500) : problem;
  return said.empty() ? isNoPython(python) : error("--oracle: ", said);
}

// Holds what the script wrote, by kind and name.
struct Answer {
  std::map<std::string, NamedTensors> kinds;
  std::vector<std::string> notes;
};

Result<Answer> readAnswer(const TemporaryFolder &folder) {
  Answer answer;
  auto file = support::SafetensorsFile::open(folder.file("results.safetensors"));
  if (!file)
    return file.takeError();
  for (const auto &[name, view] : file->tensors()) {
    size_t colon = std::min(name.find(':'), name.size());
    std::string rest = colon < name.size() ? name.substr(colon + 1) : "";
    Tensor &tensor = answer.kinds[name.substr(0, colon)][rest] = Tensor(view.shape);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.data[i] = support::readAsDouble(view.type, view.data, i);
  }
  auto notes = support::readFile(folder.file("notes.json"));
  if (!notes)
    return notes.takeError();
  for (const auto &note : nlohmann::json::parse(*notes, nullptr, false))
    answer.notes.push_back(note.get<std::string>());
  return answer;
}

Result<Answer> ask(const std::string &python, const Reference &reference, ModuleOp imported) {
  auto folder = TemporaryFolder::make();
  if (!folder)
    return folder.takeError();
  if (Status s =
          support::writeFile(folder->file("request.json"), requestOf(reference, imported).dump());
      !s)
    return s.takeError();
  if (Status s = writeArrays(folder->file("arrays.safetensors"), reference.trial); !s)
    return s.takeError();
  if (Status s = runScript(python, *folder, {folder->path()}); !s)
    return s.takeError();
  return readAnswer(*folder);
}

// Returns result 0 of the imported @forward for the first micro-batch, in double.
FailureOr<Tensor> importedLogits(ModuleOp imported, const Trial &trial) {
  auto forward = imported.lookupSymbol<func::FuncOp>("forward");
  NamedTensors states = statesFromSources(imported, trial.weights);
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    if (auto symbol = forward.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kState)) {
      arguments.push_back(states[symbol.getValue().str()]);
      continue;
    }
    auto name = forward.getArgAttrOfType<StringAttr>(i, graph::kInput);
    const auto &inputs = trial.steps.front().inputs;
    auto found = name ? inputs.find(name.str()) : inputs.end();
    Tensor part(cast<RankedTensorType>(forward.getArgumentTypes()[i]).getShape().vec());
    if (found == inputs.end() || found->second.size() < part.size())
      return forward.emitError("argument ") << i << " is bound to no input of the step";
    std::copy_n(found->second.data.begin(), part.size(), part.data.begin());
    arguments.push_back(std::move(part));
  }
  auto results = graph::evaluate(forward, arguments);
  if (failed(results))
    return failure();
  return results->front();
}

// Sums gradients over all uses of each stored tensor, under the name of its first source.
NamedTensors byStoredTensor(ModuleOp imported, const NamedTensors &gradients) {
  std::map<std::pair<std::string, int64_t>, std::string> first;
  NamedTensors sums;
  for (auto source : imported.getOps<graph::SourceOp>()) {
    auto place = storedLocation(imported, source);
    std::string name = source.getSymName().str();
    auto found = gradients.find(name);
    if (found == gradients.end())
      continue;
    std::string target = place.first.empty() ? name : first.try_emplace(place, name).first->second;
    Tensor &sum = sums.try_emplace(target, Tensor(found->second.shape)).first->second;
    for (int64_t i = 0; i < sum.size() && i < found->second.size(); ++i)
      sum.data[i] += found->second.data[i];
  }
  return sums;
}

} // namespace

Status checkPackages(const std::string &python, const CompileOptions &options) {
  auto folder = TemporaryFolder::make();
  if (!folder)
    return folder.takeError();
  if (Status s = runScript(
          python, *folder,
          {"--needs", isOnnx(options) ? "onnx" : "config", options.infer ? "infer" : "train"});
      !s)
    return s;
  bool isReady = llvm::StringRef(lastLines(folder->file("log"), 1500)).ends_with("ready");
  return isReady ? support::ok() : Status(isNoPython(python));
}

LogicalResult checkOracle(const std::string &python, const Reference &reference,
                          const Outcome &ranks, Report &report) {
  ModuleOp imported = reference.one.at(Phase::Import);
  auto answer = ask(python, reference, imported);
  if (!answer)
    return emitError(UnknownLoc::get(imported.getContext()))
           << reference.one.options.model << ": " << answer.message();
  auto &kinds = answer->kinds;
  double runtime = kinds.count("narrow") ? kNarrow : kFloat32;
  double outputs = isOnnx(reference.one.options) ? runtime : kDouble;
  for (const std::string &note : answer->notes)
    report.relation += "oracle: " + note + "\n";
  if (reference.one.options.infer) {
    TensorError results = resultDistance(ranks.results, kinds["output"]);
    report.add("oracle:outputs", results.name, results.value, outputs);
    return success();
  }
  FailureOr<Tensor> logits = importedLogits(imported, reference.trial);
  if (failed(logits))
    return failure();
  NamedTensors own = {{"logits", *logits}};
  report.add("oracle:outputs", "first micro-batch", vectorError(own, kinds["output"]).value,
             outputs);
  if (!kinds.count("loss"))
    return success();
  if (kinds.count("reading"))
    report.add("oracle:reading", "PyTorch, ONNX Runtime",
               vectorError(kinds["reading"], kinds["output"]).value, runtime);
  double loss = relativeError(ranks.losses.front(), kinds["loss"][""].data.at(0));
  report.add("oracle:loss", "first step", loss, kDouble);
  TensorError gradients =
      gradientError(byStoredTensor(imported, ranks.gradients), kinds["gradient"]);
  report.add("oracle:gradients", gradients.name, gradients.value, kGradient);
  return success();
}

} // namespace llmc::verify

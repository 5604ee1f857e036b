#include "runtime/session/Files.h"

#include "lib/support/Counted.h"
#include "lib/support/OutputFile.h"
#include "lib/support/OutputConflicts.h"
#include "lib/support/Safetensors.h"
#include "runtime/session/Results.h"

#include <filesystem>

using namespace llmc;
using namespace llmc::runtime;
using planfile::ProgramT;
using support::error;
using support::NamedFile;
using support::ok;
using support::Status;
namespace fs = std::filesystem;

namespace {

std::vector<NamedFile> inputsOf(const ProgramT &program, const Options &options,
                                const RunContext &context, const Weights &weights) {
  std::vector<NamedFile> files;
  auto add = [&](const std::string &flag, const std::string &path) {
    if (!path.empty())
      files.push_back({flag, path});
  };
  for (const DataFile &file : options.data)
    for (const std::string &path : tokenFilesOf(file.path))
      add("--data", path);
  if (!options.evalData.empty())
    for (const std::string &path : tokenFilesOf(options.evalData))
      add("--eval-data", path);
  for (const auto &[name, path] : options.inputs)
    add("--input " + name, path);
  for (const std::string &path : weights.paths())
    add(options.weights.empty() ? "the model's weights" : "--weights", path);
  // Adds the model itself, which is read no more but was when the program was made.
  const std::string &model = program.model->source_path;
  add("the model", model);
  if (!model.empty())
    add("the model", (fs::path(context.folder) / model).string());
  add("the program", context.program);
  return files;
}

// Returns the files that a flag names and that are written as a whole.
std::vector<NamedFile> wholeFilesOf(const Options &options) {
  std::vector<NamedFile> files;
  for (auto [flag, path] : {std::pair("--trace", &options.trace),
                            std::pair("--dump", &options.dump),
                            std::pair("--count-collectives", &options.countCollectives), std::pair("--profile-rows", &options.profileRows)})
    if (!path->empty())
      files.push_back({flag, *path});
  return files;
}

Status checkSpace(const std::string &folder, uint64_t needed) {
  std::error_code code;
  fs::space_info space = fs::space(folder, code);
  if (code || space.available >= needed)
    return ok();
  return error("--save: the weights take ", support::groupDigits(needed), " bytes, '", folder,
               "' has ", support::groupDigits(space.available),
               " free; make room, or name another folder");
}

Status checkSave(const ProgramT &program, const std::string &folder) {
  if (Status s = support::makeDirectory(folder); !s)
    return error("--save: ", s.message());
  // A loader of the folder would read the shards that the index names instead of what was
  // saved.
  std::string index = (fs::path(folder) / support::kSafetensorsIndex).string();
  if (std::error_code code; fs::exists(index, code))
    return error("--save: '", index, "' says that the folder holds other weights, and would be "
                 "read in place of what is saved; name another folder");
  std::string weights = folder + "/model.safetensors", config = folder + "/config.json";
  if (std::error_code code; !program.model->config_json.empty() && fs::exists(config, code) &&
                            !fs::exists(weights, code)) {
    support::Result<std::string> there = support::readFile(config);
    if (!there || *there != program.model->config_json)
      return error("--save: '", config, "' is another model's or was not written by this program, "
                   "and would be replaced; name another folder");
  }
  for (const char *name : {"/model.safetensors", "/config.json"})
    if (Status s = support::checkWritable(folder + name); !s)
      return error("--save: ", s.message());
  return checkSpace(folder, savedBytes(program));
}

} // namespace

Status runtime::checkFiles(const ProgramT &program, const Options &options,
                           const RunContext &context, const Weights &weights,
                           const std::vector<std::string> &results) {
  std::vector<NamedFile> whole = wholeFilesOf(options), outputs = whole;
  if (!options.metrics.empty())
    outputs.push_back({"--metrics", options.metrics});
  if (!options.save.empty()) {
    outputs.push_back({"--save", options.save + "/model.safetensors"});
    if (!program.model->config_json.empty())
      outputs.push_back({"--save", options.save + "/config.json"});
  }
  for (const std::string &path : results)
    outputs.push_back({"--output", path});
  if (Status s =
          support::checkOutputConflicts(inputsOf(program, options, context, weights), outputs);
      !s)
    return s;
  for (const NamedFile &file : whole)
    if (Status s = support::checkWritable(file.path); !s)
      return error(file.flag, ": ", s.message());
  return options.save.empty() ? ok() : checkSave(program, options.save);
}

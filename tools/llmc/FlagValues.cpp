#include "tools/llmc/FlagValues.h"

#include "lib/support/FlagSetters.h"
#include "lib/support/Nearest.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "tools/llmc/Flags.h"

#include <algorithm>
#include <set>

namespace llmc {
using planfile::AxisRole;
using support::didYouMean;
using support::GivenFlag;
using support::Problems;
using support::text;

// Returns the parts between separators, empty ones too.
static std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

// Sets axes by name: dp=8,tp=2.
static void setNamedAxes(CommandLine &line, const std::string &mesh, Problems &problems) {
  std::set<std::string> seen;
  std::vector<std::string> names;
  for (AxisRole role : planfile::kAxisRoles)
    names.emplace_back(nameOf(role));
  for (const std::string &part : split(mesh, ',')) {
    size_t equal = part.find('=');
    std::string name = part.substr(0, equal);
    if (equal == std::string::npos)
      return problems.usage("--mesh: '", part, "' is no axis=size, in '", mesh, "'");
    auto role = planfile::roleNamed(name);
    if (!role)
      problems.usage("--mesh: unknown axis '", name, "'; axes are ", planfile::allRoleNames(),
                     didYouMean(name, names));
    else if (!seen.insert(name).second)
      problems.usage("--mesh: ", name, " is given twice, in '", mesh, "'");
    else if (auto size = support::readWhole("--mesh " + name, part.substr(equal + 1), 1, kMost,
                                            problems))
      line.options.of(*role) = *size;
  }
  for (const std::string &name : seen)
    if (line.has("--" + name))
      problems.usage("--mesh and --", name, " both give the size of ", name, "; give one of them");
}

void setMesh(CommandLine &line, const GivenFlag &given, Problems &problems) {
  constexpr uint64_t kMostRanks = 1 << 20; // of one axis
  const std::string &mesh = given.value;
  if (mesh.find('=') != std::string::npos)
    return setNamedAxes(line, mesh, problems);
  std::vector<int64_t> sizes;
  for (const std::string &part : split(mesh, 'x')) {
    auto value = support::parseWhole(part);
    if (!value || *value < 1 || *value > kMostRanks)
      return problems.usage("--mesh needs sizes of 1 to ", kMostRanks, " joined by x, got '", mesh,
                            "'");
    sizes.push_back(*value);
  }
  if (sizes.size() > 3)
    return problems.usage("--mesh needs one to three sizes (dp, dp x tp, dp x pp x tp), got '",
                          mesh, "'");
  for (AxisRole role : {AxisRole::Data, AxisRole::Stages, AxisRole::Tensor})
    if (std::string_view name = nameOf(role); line.has(text("--", name)))
      problems.usage("--mesh ", mesh, " and --", name, " both give the size of ", name,
                     "; give one of them");
  line.options.dp = sizes[0];
  line.options.tp = sizes.size() > 1 ? sizes.back() : 1;
  line.options.pp = sizes.size() == 3 ? sizes[1] : 1;
}

void addDims(CommandLine &line, const GivenFlag &given, Problems &problems) {
  for (const std::string &part : split(given.value, ',')) {
    size_t equal = part.rfind('=');
    std::string name = llvm::StringRef(part).take_front(equal).trim().str();
    if (equal == std::string::npos || name.empty())
      return problems.usage("--dim needs name=value, got '", part, "' in '", given.value, "'");
    auto size = support::readWhole("--dim " + name, part.substr(equal + 1), 0, kMost,
                                   problems); // 0: an empty cache
    if (!line.options.dims.emplace(name, size.value_or(0)).second)
      problems.usage("--dim: ", name, " is given twice");
  }
}

void addCudaKernels(CommandLine &line, const GivenFlag &given, Problems &problems) {
  std::vector<std::string> known, &chips = line.options.cudaKernels;
  for (llvm::StringRef chip : emit::kCudaChips)
    known.push_back(chip.str());
  for (const std::string &part : split(given.value, ',')) {
    if (part != "all" && std::find(known.begin(), known.end(), part) == known.end()) {
      std::string all;
      for (const std::string &chip : known)
        all += (all.empty() ? "" : ", ") + chip;
      return problems.usage("--cuda-kernels: chips are ", all, " or all, got '", part, "'",
                            didYouMean(part, known));
    }
    for (const std::string &chip : known)
      if ((part == "all" || part == chip) &&
          std::find(chips.begin(), chips.end(), chip) == chips.end())
        chips.push_back(chip);
  }
}

void setStages(CommandLine &line, const GivenFlag &given, Problems &problems) {
  line.options.stages.clear();
  if (given.value == "auto")
    return;
  for (const std::string &part : split(given.value, ',')) {
    auto count = support::parseWhole(part);
    if (!count || *count > kMost)
      return problems.usage("--stages needs auto, or the layers of each virtual stage: whole numbers up to ", kMost,
                            " joined by commas, without spaces; got '", given.value, "'");
    line.options.stages.push_back(int64_t(*count));
  }
}

void setLossScale(CommandLine &line, const GivenFlag &given, Problems &problems) {
  auto scale = support::parseReal(given.value);
  if (given.value == "dynamic")
    line.options.lossScale = 0;
  else if (scale && *scale >= 1 && *scale <= CompileOptions::kMostLossScale)
    line.options.lossScale = *scale;
  else
    problems.usage("--loss-scale needs dynamic or a number from 1 to 2^64, got '", given.value,
                   "'");
}

void setDropout(CommandLine &line, const GivenFlag &given, Problems &problems) {
  auto rate = support::parseReal(given.value);
  if (given.value != "config" && (!rate || *rate < 0 || *rate >= 1))
    problems.usage("--dropout needs a rate of at least 0 and below 1, or config, got '",
                   given.value, "'");
  line.options.configDropout = given.value == "config";
  if (rate)
    line.options.dropout = *rate;
}

} // namespace llmc

// llmc-ir-mutants MODEL MESH SEQ [choices]: breaks the IR of a model at the borders raise,
// train, shard and partition, one edit at a time, and prints what the default `verify` says of
// each. One object on stdout; exit 1 if a fault survives.
//
//   --sample N    only N of them, drawn from a fixed seed
//   --only TEXT   only those whose id has TEXT
//   --family NAME only those of a family: "types", "dropped", ...
//   --precision P of a training in bf16 or fp16
//   --skip        which skips steps whose gradients are not finite
//   --list        prints their ids and decides nothing
//   --quick       asks only checks that need no plan: what passes is not yet decided
//   --whole-sequence  without sequence parallelism, where places are counted so
//   --infer       of an inference
//   --dim N=V     as in llmc, and so
//   --ep, --moe-budget, --moe-capacity, --moe-aux-loss, --moe-bias-rate N  of a mixture of experts
#include "lib/pipeline/Pipeline.h"
#include "lib/support/Json.h"
#include "lib/verify/mutation/IrMutationRunner.h"
#include "runtime/cpu/Executor.h"
#include "test/support/Context.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

using namespace llmc;
using nlohmann::json;

namespace {

struct Asked {
  verify::VerifyOptions verify;
  uint64_t sample = 0;
  std::string only, family;
  bool list = false, quick = false;
};

Asked parse(int argc, char **argv) {
  Asked asked;
  CompileOptions &compile = asked.verify.compile;
  compile.model = argv[1];
  unsigned dp = 1, pp = 1, tp = 1;
  std::sscanf(argv[2], "%ux%ux%u", &dp, &pp, &tp);
  compile.dp = dp, compile.pp = pp, compile.tp = tp;
  compile.sequence = std::atol(argv[3]);
  compile.globalBatch = 2 * dp * pp;
  asked.verify.twin = verify::ScaledDownMode::Off;
  for (int i = 4; i < argc; ++i) {
    std::string flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--sample")
      asked.sample = std::strtoul(value.c_str(), nullptr, 10), ++i;
    else if (flag == "--only")
      asked.only = value, ++i;
    else if (flag == "--family")
      asked.family = value, ++i;
    else if (flag == "--precision")
      compile.precision = value == "bf16" ? Precision::Bf16 : Precision::Fp16, ++i;
    else if (flag == "--skip")
      compile.skipNonfinite = true;
    else if (flag == "--whole-sequence")
      compile.sequenceParallel = false;
    else if (flag == "--ep")
      compile.ep = std::strtoul(value.c_str(), nullptr, 10), ++i;
    else if (flag == "--moe-budget")
      compile.moeBudget = std::atof(value.c_str()), ++i;
    else if (flag == "--moe-capacity")
      compile.moeCapacity = std::atof(value.c_str()), ++i;
    else if (flag == "--moe-aux-loss")
      compile.moeBalance = Balance::Aux, compile.moeAuxLoss = std::atof(value.c_str()), ++i;
    else if (flag == "--moe-bias-rate")
      compile.moeBalance = Balance::Bias, compile.moeBiasRate = std::atof(value.c_str()), ++i;
    else if (flag == "--list")
      asked.list = true;
    else if (flag == "--quick")
      asked.quick = true;
    else if (flag == "--infer")
      compile.infer = true;
    else if (flag == "--dim")
      compile.dims[value.substr(0, value.find('='))] = std::atol(&value[value.find('=') + 1]), ++i;
  }
  return asked;
}

std::vector<verify::IrMutant> choose(std::vector<verify::IrMutant> all, const Asked &asked) {
  std::erase_if(all, [&](const verify::IrMutant &m) {
    return m.id().find(asked.only) == std::string::npos ||
           (!asked.family.empty() && m.family != asked.family);
  });
  if (!asked.sample || asked.sample >= all.size())
    return all;
  std::mt19937 random(13);
  for (size_t i = 0; i < asked.sample; ++i)
    std::swap(all[i], all[i + random() % (all.size() - i)]);
  all.resize(asked.sample);
  return all;
}

void count(json &object, const std::string &key) { object[key] = object.value(key, 0) + 1; }

json summarize(const std::vector<verify::IrMutant> &mutants,
               const std::vector<verify::IrDecision> &decisions) {
  json result = {{"total", mutants.size()}, {"killed", 0}, {"equivalent", 0}, {"below", 0}};
  for (const char *name : {"killed_by", "reasons", "phases"})
    result[name] = json::object();
  json survivors = json::array(), small = json::array();
  for (size_t i = 0; i < mutants.size(); ++i) {
    const verify::IrDecision &decision = decisions[i];
    json &phase = result["phases"][std::string(toString(mutants[i].phase))];
    if (phase.is_null())
      phase = json::object();
    if (!decision.overwriter.empty()) {
      count(result, "killed");
      count(result["killed_by"], decision.overwriter);
      count(phase, decision.overwriter);
    } else if (!decision.reason.empty()) {
      count(result, "equivalent");
      count(result["reasons"], decision.reason);
      count(phase, "equivalent");
    } else if (decision.below()) {
      count(result, "below");
      count(phase, "below");
      small.push_back({{"id", mutants[i].id()}, {"change", decision.change}});
    } else {
      count(phase, "survivors");
      survivors.push_back({{"id", mutants[i].id()}, {"change", decision.change}});
    }
  }
  result["survivors"] = survivors;
  result["small"] = small;
  return result;
}

int run(const Asked &asked) {
  test::LoadedContext context(mlir::MLIRContext::Threading::DISABLED);
  auto court = verify::IrMutationRunner::create(context, asked.verify);
  if (mlir::failed(court))
    return 2;
  std::vector<verify::IrMutant> all = (*court)->list();
  size_t listed = all.size();
  std::vector<verify::IrMutant> mutants = choose(std::move(all), asked);
  if (asked.list) {
    for (const verify::IrMutant &mutant : mutants)
      std::printf("%s\n", mutant.id().c_str());
    return 0;
  }
  (*court)->quick = asked.quick;
  constexpr unsigned kSeconds = 600; // a verification on a busy machine is no hang
  size_t last = 0;
  auto tell = [&](size_t done) {
    if (done / 50 != last / 50)
      std::fprintf(stderr, "%zu of %zu\n", done, mutants.size());
    last = done;
  };
  std::vector<verify::IrDecision> decisions =
      (*court)->decide(mutants, runtime::availableCores(), kSeconds, tell);
  if (decisions.size() != mutants.size()) {
    std::fprintf(stderr, "cannot start child processes\n");
    return 2;
  }
  json result = summarize(mutants, decisions);
  result["listed"] = listed;
  std::printf("%s\n", support::jsonText(result, 2).c_str());
  return result["survivors"].empty() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: llmc-ir-mutants MODEL MESH SEQ [choices]\n");
    return 2;
  }
  return run(parse(argc, argv));
}

// llmc-catalogue FOLDER [TEXT | --every N]: plants each fault of the catalogue and prints which
// check of the default `verify` finds it. FOLDER holds gpt2.json, llama.json and tiny.onnx. TEXT:
// only faults whose phase or name has it; or every N-th. Faults that only the model's own file
// shows are planted where LLMC_ORACLE_PYTHON names a Python for --oracle. Exit 1 if a fault is
// found by nobody, or has no place.
#include "lib/pipeline/Pipeline.h"
#include "lib/verify/mutation/ChildProcesses.h"
#include "lib/verify/mutation/IrMutationRunner.h"
#include "runtime/cpu/Executor.h"
#include "test/support/Context.h"
#include "test/verify/catalogue/Catalogue.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

using namespace llmc;
using catalogue::Fault;

namespace {

constexpr unsigned kSeconds = 300;

std::vector<Fault> chosen(const std::string &text, size_t every) {
  std::vector<Fault> all;
  size_t number = 0;
  for (auto part : {catalogue::importFaults, catalogue::raiseFaults, catalogue::trainFaults,
                    catalogue::optimizerFaults, catalogue::shardFaults, catalogue::partitionFaults,
                    catalogue::sequenceFaults, catalogue::ringFaults, catalogue::scheduleFaults, catalogue::kernelFaults, catalogue::typeFaults})
    for (Fault &fault : part())
      if ((std::string(toString(fault.phase)) + ": " + fault.name).find(text) != std::string::npos &&
          number++ % every == 0)
        all.push_back(std::move(fault));
  return all;
}

std::string decide(const verify::IrMutationRunner &court, const Fault &fault) {
  bool placed = false;
  verify::IrDecision decision =
      court.decide(fault.phase, [&](Phase, mlir::ModuleOp module) {
        bool done = fault.edit(module);
        placed |= done;
        return done;
      });
  char text[200];
  if (!placed)
    return "no place";
  if (!decision.overwriter.empty())
    return decision.overwriter;
  std::snprintf(text, sizeof text, "%s %.2g", decision.below() ? "below" : "MISSED",
                decision.change);
  return text;
}

// "fp64:train:gradients" is what "fp64:train" expects.
bool asExpected(const Fault &fault, const std::string &found) {
  return found.rfind(fault.expected, 0) == 0;
}
bool isFound(const Fault &fault, const std::string &found) {
  if (found.rfind("below", 0) == 0) // of what begins, or where, nothing is seen in the drawn step
    return fault.phase != Phase::Import;
  return found != "no place" && found.rfind("MISSED", 0) != 0;
}
bool needsOracle(const Fault &fault) { return std::string(fault.expected) == "oracle"; }

// Builds and keeps the mutation runner that decides the faults of a model on a mesh.
class Courts {
public:
  Courts(mlir::MLIRContext &context, std::string folder, std::string python)
      : context(context), folder(std::move(folder)), python(std::move(python)) {}

  // Null after diagnostics.
  const verify::IrMutationRunner *of(const Fault &fault) {
    std::string precision = fault.precision ? fault.precision : "fp32";
    std::string recompute = fault.recompute ? fault.recompute : "";
    auto &court = courts[{fault.model, fault.mesh, precision, recompute, fault.rows, needsOracle(fault)}];
    if (court)
      return court.get();
    verify::VerifyOptions options;
    CompileOptions &compile = options.compile;
    compile.sequenceParallel = fault.recompute != nullptr; // else places are counted in whole sequences
    if (recompute == "full")
      compile.recompute = Recompute::Full;
    compile.model = folder + "/" + fault.model + ".json";
    if (!std::filesystem::exists(compile.model))
      compile.model = folder + "/" + fault.model + ".onnx";
    std::sscanf(fault.mesh, "%ldx%ldx%ldx%ld", &compile.dp, &compile.pp, &compile.tp, &compile.cp);
    compile.sequence = std::max<int64_t>(4, 2 * compile.cp);
    compile.microBatch = fault.rows;
    compile.globalBatch = 2 * compile.dp * compile.pp * fault.rows;
    if (fault.precision) {
      compile.precision = precision == "bf16" ? Precision::Bf16 : Precision::Fp16;
      compile.skipNonfinite = true;
    }
    options.twin = verify::ScaledDownMode::Off;
    if (needsOracle(fault))
      options.oracle = python;
    auto made = verify::IrMutationRunner::create(context, options);
    if (mlir::succeeded(made))
      court = std::move(*made);
    return court.get();
  }

private:
  mlir::MLIRContext &context;
  std::string folder, python;
  using Key = std::tuple<std::string, std::string, std::string, std::string, int, bool>;
  std::map<Key, std::unique_ptr<verify::IrMutationRunner>> courts;
};

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: llmc-catalogue FOLDER [TEXT | --every N]\n");
    return 2;
  }
  test::LoadedContext context(mlir::MLIRContext::Threading::DISABLED);
  std::string text = argc > 2 ? argv[2] : "";
  size_t every = 1;
  if (text == "--every" && argc > 3)
    text = "", every = std::max(1l, std::atol(argv[3]));
  std::vector<Fault> faults = chosen(text, every);
  const char *python = std::getenv("LLMC_ORACLE_PYTHON");
  size_t all = faults.size();
  if (!python || !*python)
    std::erase_if(faults, needsOracle);
  Courts courts(context, argv[1], python ? python : "");
  for (const Fault &fault : faults)
    if (!courts.of(fault))
      return 2;
  std::vector<std::string> found = verify::runInChildProcesses(
      faults.size(), runtime::availableCores(), kSeconds,
      [&](size_t i) { return decide(*courts.of(faults[i]), faults[i]); },
      [](size_t) {});
  if (found.size() != faults.size()) {
    std::fprintf(stderr, "cannot start child processes\n");
    return 2;
  }
  unsigned missed = 0, others = 0;
  for (size_t i = 0; i < faults.size(); ++i) {
    const Fault &fault = faults[i];
    bool good = isFound(fault, found[i]), expected = asExpected(fault, found[i]);
    missed += !good;
    others += good && !expected;
    std::printf("%-7s %-9s %-46s %s\n", !good ? "MISSED" : expected ? "ok" : "other",
                std::string(toString(fault.phase)).c_str(), fault.name, found[i].c_str());
  }
  std::printf("%zu faults, %zu found, %u by another check than expected, %u missed\n",
              faults.size(), faults.size() - missed, others, missed);
  if (all > faults.size())
    std::printf("%zu more need LLMC_ORACLE_PYTHON\n", all - faults.size());
  return missed ? 1 : 0;
}

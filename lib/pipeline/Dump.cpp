#include "lib/pipeline/Dump.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"
#include "lib/pipeline/RunPasses.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/support/FlagSetters.h"
#include "lib/support/OutputFile.h"
#include "mlir/Pass/PassManager.h"
#include "passes/1-raise/Passes.h"
#include "passes/2-train/Passes.h"
#include "passes/3-shard/Passes.h"
#include "passes/4-partition/Passes.h"
#include "passes/5-schedule/Passes.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir;

namespace llmc {

// Returns whether a run of the compiler left its options there: a model may be written as IR too.
bool isDump(const std::string &path) {
  if (!llvm::StringRef(path).ends_with(".mlir"))
    return false;
  auto file = llvm::MemoryBuffer::getFile(path);
  return !file || (*file)->getBuffer().contains("plan.options") ||
         !(*file)->getBuffer().contains(graph::kMode);
}

// Returns the phase after which the IR stands, by what each boundary has and earlier ones lack;
// null if it has none of that. Works on text, so that it serves where the parser or a verifier
// fails.
static std::optional<Phase> phaseOf(llvm::StringRef text) {
  if (text.contains("plan.stage "))
    return Phase::Schedule;
  if (text.contains("func.func @forward_0"))
    return Phase::Partition;
  if (text.contains("parallel.in = "))
    return Phase::Shard;
  if (text.contains("func.func @micro"))
    return Phase::Train;
  if (text.contains("func.func @forward"))
    return Phase::Raise;
  return std::nullopt;
}

constexpr llvm::StringLiteral kOptions = "plan.options", kPhase = "phase";

static std::optional<Precision> precisionNamed(StringRef name) {
  for (Precision precision : {Precision::Fp32, Precision::Bf16, Precision::Fp16})
    if (name == nameOf(precision))
      return precision;
  return std::nullopt;
}

// Reads the element types; a dump without the entries was written in fp32.
static LogicalResult readPrecision(ModuleOp module, DictionaryAttr stored,
                                   CompileOptions &options) {
  auto precision = stored.getAs<StringAttr>("precision");
  auto gradient = stored.getAs<StringAttr>("grad_dtype");
  options.precision = precision ? precisionNamed(precision) : std::nullopt;
  auto gradDtype = gradient ? precisionNamed(gradient) : Precision::Fp32;
  auto reduction = stored.getAs<StringAttr>("reduce_dtype");
  options.reduceDtype = reduction ? precisionNamed(reduction) : std::nullopt;
  if ((precision && !options.precision) || !gradDtype || (reduction && !options.reduceDtype))
    return module.emitError("plan.options has precision, grad_dtype and reduce_dtype fp32, bf16 or "
                            "fp16, got ")
           << stored;
  options.gradDtype = *gradDtype;
  auto scale = stored.getAs<FloatAttr>("loss_scale");
  auto nonfinite = stored.getAs<StringAttr>("on_nonfinite");
  options.lossScale = scale ? scale.getValueAsDouble() : 0;
  if (nonfinite)
    options.skipNonfinite = nonfinite == "skip";
  if (!(options.lossScale >= 0 && options.lossScale <= CompileOptions::kMostLossScale) ||
      (nonfinite && nonfinite != "skip" && nonfinite != "stop"))
    return module.emitError("plan.options has loss_scale up to ")
           << CompileOptions::kMostLossScale << " and on_nonfinite skip or stop, got " << stored;
  return success();
}

// Reads how experts are balanced; without an entry they are not, whatever the config asks for.
static LogicalResult readBalance(ModuleOp module, DictionaryAttr stored, CompileOptions &options) {
  auto auxLoss = stored.getAs<FloatAttr>("moe_aux_loss"), biasRate = stored.getAs<FloatAttr>("moe_bias_rate");
  auto named = stored.getAs<StringAttr>("moe_balance");
  std::string balance = named ? named.str() : "";
  options.moeBalance = balance == "aux" ? Balance::Aux : balance == "bias" ? Balance::Bias : Balance::None;
  options.moeAuxLoss = auxLoss ? std::optional(auxLoss.getValueAsDouble()) : std::nullopt;
  options.moeBiasRate = biasRate ? std::optional(biasRate.getValueAsDouble()) : std::nullopt;
  if ((!balance.empty() && balance != nameOf(*options.moeBalance)) || balance == "none" ||
      bool(auxLoss) != (balance == "aux") || bool(biasRate) != (balance == "bias") ||
      !(options.moeAuxLoss.value_or(1) > 0) || !(options.moeBiasRate.value_or(1) > 0))
    return module.emitError("plan.options has moe_balance aux and moe_aux_loss above 0, or bias and moe_bias_rate "
                            "above 0, or none of them, got ")
           << stored;
  return success();
}

static LogicalResult readOptions(ModuleOp module, CompileOptions &options) {
  auto mesh = parallel::getMesh(module);
  auto stored = module->getAttrOfType<DictionaryAttr>(kOptions);
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  if (!mesh || !stored || !model || !model.getAs<StringAttr>("source_path"))
    return module.emitError("is no dump: it lacks parallel.mesh, plan.options or graph.model");
  auto number = [](DictionaryAttr from, StringRef key, int64_t otherwise) {
    auto value = from.getAs<IntegerAttr>(key);
    return value ? value.getInt() : otherwise;
  };
  auto text = [](DictionaryAttr from, StringRef key) {
    auto value = from.getAs<StringAttr>(key);
    return value ? value.str() : std::string();
  };
  options.model = text(model, "source_path");
  for (planfile::AxisRole role : planfile::kAxisRoles)
    options.of(role) = mesh.getSize(role);
  options.edp = 0; // it follows from the others
  options.infer = parallel::isInference(module);
  options.sequence = number(model, "sequence", 0);
  options.microBatch = number(stored, "micro_batch", 1);
  options.globalBatch = number(stored, "global_batch", 0);
  for (Schedule one : {Schedule::GPipe, Schedule::OneFOneB, Schedule::Interleaved, Schedule::ZeroBubble})
    if (text(stored, "schedule") == nameOf(one))
      options.schedule = one;
  options.optimizer = text(stored, "optimizer") == "sgd" ? Optimizer::Sgd : Optimizer::AdamW;
  if (!options.schedule ||
      !llvm::is_contained({"adamw", "sgd", "none"}, text(stored, "optimizer")))
    return module.emitError("plan.options has schedule gpipe, 1f1b, interleaved or zero-bubble, and optimizer "
                            "adamw, sgd or none, got ")
           << stored;
  options.virtualStages = number(stored, "virtual_stages", 1);
  if (*options.virtualStages < 1 || *options.virtualStages > CompileOptions::kMostChunks)
    return module.emitError("plan.options has virtual_stages from 1 to ")
           << CompileOptions::kMostChunks << ", got " << stored;
  if (auto stages = stored.getAs<DenseI64ArrayAttr>("stages"))
    options.stages.assign(stages.asArrayRef().begin(), stages.asArrayRef().end());
  int64_t rows = 0;
  if (options.microBatch < 1 || options.globalBatch < 0 || options.dp < 1 ||
      __builtin_mul_overflow(options.microBatch, options.dp, &rows) ||
      options.globalBatch / rows > CompileOptions::kMostRuns / options.pp ||
      (!options.infer && options.microBatches() != number(stored, "micro_batches", 0)))
    return module.emitError("plan.options has micro_batches of micro_batch rows a data-parallel "
                            "rank that make global_batch rows, at most ")
           << CompileOptions::kMostRuns / options.pp << " of them, got " << stored;
  for (Tie tie : {Tie::Auto, Tie::Off, Tie::Exact})
    if (text(stored, "tie") == nameOf(tie))
      options.tie = tie;
  if (failed(readPrecision(module, stored, options)))
    return failure();
  options.zero = 0;
  if (auto zero = stored.getAs<IntegerAttr>("zero")) {
    if (zero.getInt() < 0 || zero.getInt() > 3)
      return module.emitError("plan.options has zero from 0 to 3, got ") << stored;
    options.zero = zero.getInt();
  }
  if (auto sequence = stored.get("sequence_parallel")) {
    auto value = dyn_cast<StringAttr>(sequence);
    if (!value || !llvm::is_contained({"on", "off"}, value.getValue()))
      return module.emitError("plan.options has sequence_parallel on or off, got ") << stored;
    options.sequenceParallel = value.getValue() == "on";
  }
  if (auto kind = stored.get("cp_kind")) {
    auto value = dyn_cast<StringAttr>(kind);
    if (!value || !llvm::is_contained({"heads", "ring"}, value.getValue()))
      return module.emitError("plan.options has cp_kind heads or ring, got ") << stored;
    options.cpKind = value.getValue() == "ring" ? CpKind::Ring : CpKind::Heads;
  }
  if (auto recompute = stored.get("recompute")) {
    auto value = dyn_cast<StringAttr>(recompute);
    for (Recompute one : {Recompute::None, Recompute::Selective, Recompute::Full, Recompute::Auto})
      if (value && value.getValue() == nameOf(one))
        options.recompute = one;
    if (!value || value.getValue() != nameOf(options.recompute))
      return module.emitError("plan.options has recompute none, selective, full or auto, got ") << stored;
  }
  if (auto dropout = stored.getAs<StringAttr>("dropout")) {
    options.configDropout = dropout == "config";
    auto rate = support::parseReal(dropout.getValue());
    if (!options.configDropout && !(rate && *rate >= 0 && *rate < 1))
      return module.emitError("plan.options has dropout config or from 0 to less than 1, got ") << stored;
    if (!options.configDropout)
      options.dropout = rate;
  }
  auto budget = stored.getAs<FloatAttr>("moe_budget"), capacity = stored.getAs<FloatAttr>("moe_capacity");
  options.moeBudget = budget ? budget.getValueAsDouble() : 0;
  options.moeCapacity = capacity ? capacity.getValueAsDouble() : 0;
  if (!(options.moeBudget >= 1 || !budget) || !(options.moeCapacity >= 0))
    return module.emitError("plan.options has a moe_budget of at least 1 and a moe_capacity of at least 0, got ")
           << stored;
  if (failed(readBalance(module, stored, options)))
    return failure();
  options.memoryLimit = number(stored, "memory_limit", 0);
  if (options.memoryLimit < 0)
    return module.emitError("plan.options has a memory_limit in bytes, got ") << stored;
  if (auto fuse = stored.getAs<BoolAttr>("fuse"))
    options.fuse = fuse.getValue();
  if (auto ahead = stored.getAs<IntegerAttr>("gather_ahead")) {
    if (ahead.getInt() < 0 || ahead.getInt() > CompileOptions::kMostAhead)
      return module.emitError("plan.options has gather_ahead from 0 to ")
             << CompileOptions::kMostAhead << ", got " << stored;
    options.gatherAhead = ahead.getInt();
  }
  options.raise = text(stored, "raise") != "off";
  options.weights = text(stored, "weights");
  if (auto dims = stored.getAs<DictionaryAttr>("dims"))
    for (NamedAttribute dim : dims)
      if (auto size = dyn_cast<IntegerAttr>(dim.getValue()))
        options.dims[dim.getName().str()] = size.getInt();
  return success();
}

// Returns the phase that plan.options records, else `otherwise`.
static Phase statedPhase(ModuleOp module, Phase otherwise) {
  auto stored = module->getAttrOfType<DictionaryAttr>(kOptions);
  auto name = stored ? stored.getAs<StringAttr>(kPhase) : StringAttr();
  auto phase = name ? parsePhase(name.getValue()) : std::nullopt;
  return phase && *phase != Phase::Import ? *phase : otherwise;
}

FailureOr<Dump> readDump(MLIRContext &context, const std::string &path) {
  Location loc = UnknownLoc::get(&context);
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return emitError(loc) << path << ": " << file.getError().message();
  std::optional<Phase> phase = phaseOf((*file)->getBuffer());
  if (!phase)
    return emitError(loc) << path << ": holds none of @forward, @micro, @forward_0 or plan.stage, "
                             "so that it is no dump";
  Dump dump;
  CompileOptions read;
  read.model = path;
  dump.module = readModel(context, read);
  if (dump.module)
    dump.phase = statedPhase(*dump.module, *phase);
  if (dump.module && dump.phase == Phase::Emit)
    return emitError(loc) << path << ": stands after the last phase, so that nothing is left to do; "
                             "take the dump of a phase before it";
  if (!dump.module)
    return emitError(loc) << path << ": is not valid at phase boundary "
                          << std::string(toString(*phase));
  if (failed(readOptions(*dump.module, dump.options)))
    return failure();
  return dump;
}

support::Status writeDump(ModuleOp module, Phase phase, const std::string &path) {
  auto options = module->getAttrOfType<DictionaryAttr>(kOptions);
  if (options) {
    NamedAttrList list(options);
    list.set(kPhase, StringAttr::get(module.getContext(), toString(phase)));
    module->setAttr(kOptions, list.getDictionary(module.getContext()));
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo());
  if (options)
    module->setAttr(kOptions, options);
  return support::writeFile(path, text);
}

LogicalResult verifyPhaseBoundary(ModuleOp module, Phase phase) {
  PassManager pm(module.getContext());
  switch (phase) {
  case Phase::Raise:
    pm.addPass(createVerifyRaised(VerifyRaisedOptions{/*remark=*/false}));
    break;
  case Phase::Train:
    if (!parallel::isInference(module))
      pm.addPass(createVerifyTrain());
    break;
  case Phase::Shard:
    pm.addPass(createVerifyShardings());
    break;
  case Phase::Partition:
    pm.addPass(createVerifyPartition());
    break;
  case Phase::Schedule:
    pm.addPass(createVerifySchedule());
    break;
  case Phase::Import:
  case Phase::Emit:
    break;
  }
  return runPasses(pm, module);
}

static std::string meshText(const CompileOptions &options) {
  std::string text;
  for (planfile::AxisRole role : planfile::kAxisRoles)
    if (role != planfile::AxisRole::ExpertData)
      text += support::text(text.empty() ? "" : ",", nameOf(role), "=",
                            CompileOptions(options).of(role));
  return text;
}

static std::string dimsText(const CompileOptions &options) {
  std::string text;
  for (const auto &[name, size] : options.dims)
    text += support::text(text.empty() ? "" : ",", name, "=", size);
  return text.empty() ? "none" : text;
}

std::vector<std::string> conflictingFlags(const std::vector<std::string> &given,
                                        const CompileOptions &choices,
                                        const CompileOptions &written) {
  std::vector<std::string> lines;
  CompileOptions asked = choices;
  if (!asked.etp) // not given: the model decided
    asked.etp = written.etp;
  auto compare = [&](const std::string &flag, const std::string &got, const std::string &was) {
    bool isGiven = std::find(given.begin(), given.end(), flag) != given.end();
    if (isGiven && got != was)
      lines.push_back(support::text(flag, ": asks for ", got, ", but the IR was written ",
                                    was.empty() ? "without it" : "with " + was,
                                    "; leave it out, or compile the model again"));
  };
  auto onOff = [](bool on, const char *yes, const char *no) { return std::string(on ? yes : no); };
  compare("--mesh", meshText(asked), meshText(written));
  for (planfile::AxisRole role : planfile::kAxisRoles)
    if (role != planfile::AxisRole::ExpertData)
      compare(support::text("--", nameOf(role)), support::text(CompileOptions(asked).of(role)),
              support::text(CompileOptions(written).of(role)));
  compare("--micro-batch", support::text(asked.microBatch), support::text(written.microBatch));
  compare("--global-batch", support::text(asked.globalBatch), support::text(written.globalBatch));
  compare("--seq", support::text(asked.sequence), support::text(written.sequence));
  compare("--dim", dimsText(asked), dimsText(written));
  compare("--schedule", nameOf(asked.scheduleKind()), nameOf(written.scheduleKind()));
  compare("--virtual-stages", support::text(asked.chunks()), support::text(written.chunks()));
  auto stagesOf = [](const CompileOptions &o) {
    std::string list;
    for (int64_t count : o.stages)
      list += support::text(list.empty() ? "" : ",", count);
    return list.empty() ? "auto" : list;
  };
  compare("--stages", stagesOf(asked), stagesOf(written));
  auto isSgd = [](const CompileOptions &o) { return o.optimizer == Optimizer::Sgd; };
  compare("--optimizer", onOff(isSgd(asked), "sgd", "adamw"), onOff(isSgd(written), "sgd", "adamw"));
  auto precisionOf = [](const CompileOptions &o) {
    return std::string(o.precision ? nameOf(*o.precision) : "fp32");
  };
  compare("--precision", precisionOf(asked), precisionOf(written));
  auto scaleOf = [](const CompileOptions &o) {
    return o.lossScale ? support::text(o.lossScale) : "dynamic";
  };
  compare("--loss-scale", scaleOf(asked), scaleOf(written));
  compare("--on-nonfinite", onOff(asked.skipsNonfinite(), "skip", "stop"),
          onOff(written.skipsNonfinite(), "skip", "stop"));
  compare("--grad-dtype", nameOf(asked.gradDtype), nameOf(written.gradDtype));
  CompileOptions zero = written; // on whose mesh what is asked for has a meaning
  zero.zero = asked.zero;
  compare("--zero", std::to_string(zero.zeroStage()), std::to_string(written.zeroStage()));
  auto cuts = [&](std::optional<bool> on) {
    return std::string(on.value_or(*written.sequenceParallel) ? "on" : "off");
  };
  if (written.sequenceParallel)
    compare("--sequence-parallel", cuts(asked.sequenceParallel), cuts({}));
  if (written.cp > 1)
    compare("--cp-kind", nameOf(asked.cpKind), nameOf(written.cpKind));
  compare("--recompute", nameOf(asked.recompute), nameOf(written.recompute));
  auto dropoutOf = [](const CompileOptions &o) {
    return o.configDropout ? "config" : support::realText(o.dropout.value_or(0));
  };
  compare("--dropout", dropoutOf(asked), dropoutOf(written));
  auto factorOf = [](double factor) { return factor > 0 ? support::realText(factor) : std::string("none"); };
  compare("--moe-budget", factorOf(asked.moeBudget), factorOf(written.moeBudget));
  compare("--moe-capacity", factorOf(asked.moeCapacity), factorOf(written.moeCapacity));
  auto orNone = [](std::optional<double> factor) { return factor ? support::realText(*factor) : std::string("none"); };
  compare("--moe-balance", nameOf(asked.moeBalance.value_or(Balance::None)), nameOf(*written.moeBalance));
  compare("--moe-aux-loss", orNone(asked.moeAuxLoss), orNone(written.moeAuxLoss));
  compare("--moe-bias-rate", orNone(asked.moeBiasRate), orNone(written.moeBiasRate));
  compare("--memory-limit", support::text(asked.memoryLimit), support::text(written.memoryLimit));
  compare("--no-fusion", onOff(asked.fuse, "fusion", "none"), onOff(written.fuse, "fusion", "none"));
  compare("--gather-ahead", std::to_string(asked.gatherAhead),
          std::to_string(written.gatherAhead));
  auto reduceOf = [](const CompileOptions &o) { return nameOf(o.reduceDtype.value_or(o.gradDtype)); };
  compare("--reduce-dtype", reduceOf(asked), reduceOf(written));
  compare("--tie", nameOf(asked.tie), nameOf(written.tie));
  compare("--raise", onOff(asked.raise, "on", "off"), onOff(written.raise, "on", "off"));
  compare("--weights", asked.weights, written.weights);
  for (const char *flag : {"--train", "--infer"})
    compare(flag, onOff(asked.infer, "inference", "training"),
            onOff(written.infer, "inference", "training"));
  return lines;
}

} // namespace llmc

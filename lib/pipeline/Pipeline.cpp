// Compiles a model into a plan, phase by phase.
#include "lib/pipeline/Pipeline.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"
#include "lib/huggingface/Import.h"
#include "lib/onnx/Import.h"
#include "lib/pipeline/Dump.h"
#include "lib/pipeline/FitMemory.h"
#include "lib/pipeline/RunPasses.h"
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/support/Counted.h"
#include "lib/support/FlagSetters.h"
#include "lib/support/OutputFile.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/1-raise/Pipeline.h"
#include "passes/2-train/ExpertRoom.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "passes/5-schedule/Pipeline.h"
#include "passes/6-emit/Pipeline.h"
#include "llvm/BinaryFormat/Magic.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

namespace llmc {
using namespace mlir;

void registerDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, graph::GraphDialect, parallel::ParallelDialect,
                  plan::PlanDialect>();
}

std::string modelFile(const std::string &path) {
  if (!llvm::sys::fs::is_directory(path))
    return path;
  for (llvm::StringRef name : {"config.json", "model.onnx"}) {
    llvm::SmallString<256> file(path);
    llvm::sys::path::append(file, name);
    if (llvm::sys::fs::exists(file))
      return file.str().str();
  }
  return path;
}

// Describes an executable that was given as model, and for a compiled program its model.
static std::string describeProgram(const std::string &path) {
  auto carried = planfile::openEmbeddedProgram(path);
  if (!carried)
    return "is an executable, not a model";
  return "is a program that llmc compile made, not a model: llmc inspect and llmc explain read it; "
         "its model was " + carried->program->model->source_path;
}

OwningOpRef<ModuleOp> readModel(MLIRContext &context, const CompileOptions &options) {
  std::string file = modelFile(options.model);
  Location loc = UnknownLoc::get(&context);
  if (llvm::sys::fs::is_directory(file)) {
    emitError(loc) << file << ": folder holds neither config.json nor model.onnx";
    return {};
  }
  if (!llvm::sys::fs::exists(file)) {
    emitError(loc) << file << ": no such file";
    return {};
  }
  if (!llvm::sys::fs::is_regular_file(file)) { // a pipe would wait for its writer
    emitError(loc) << file << ": is no regular file";
    return {};
  }
  llvm::file_magic magic;
  if (!llvm::identify_magic(file, magic) && (magic == llvm::file_magic::elf_executable ||
                                             magic == llvm::file_magic::elf_shared_object)) {
    emitError(loc) << file << ": " << describeProgram(file);
    return {};
  }
  llvm::StringRef extension = llvm::sys::path::extension(file);
  if (extension == ".safetensors") {
    emitError(loc) << file
                   << ": holds weights, not a model: give the model's config.json, or an ONNX file, "
                      "and --weights for these";
    return {};
  }
  OwningOpRef<ModuleOp> module =
      extension == ".mlir"   ? parseSourceFile<ModuleOp>(file, ParserConfig(&context))
      : extension == ".json" ? importConfig(context, file, options)
                             : importOnnx(context, file, options);
  if (module && options.infer)
    (*module)->setAttr(graph::kMode, StringAttr::get(&context, "infer"));
  return module;
}

// Records the inputs that an inference accepts, in the model's order, before phase 1 drops and
// reorders arguments.
static void recordInputs(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (module->hasAttr(graph::kInputs) || !forward)
    return;
  Builder b(module.getContext());
  llvm::SmallVector<Attribute> inputs;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (Attribute name = forward.getArgAttr(i, parallel::kInput)) {
      llvm::SmallVector<NamedAttribute> entries = {
          b.getNamedAttr("name", name),
          b.getNamedAttr("type", TypeAttr::get(forward.getArgumentTypes()[i]))};
      if (Attribute loader = forward.getArgAttr(i, parallel::kLoader))
        entries.push_back(b.getNamedAttr("loader", loader));
      inputs.push_back(b.getDictionaryAttr(entries));
    }
  module->setAttr(graph::kInputs, b.getArrayAttr(inputs));
}

// Returns the tokens of a row; 0 if the model does not say.
static int64_t tokensOf(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  auto tokens = model ? model.getAs<IntegerAttr>("sequence") : IntegerAttr();
  return tokens ? tokens.getInt() : 0;
}

// Adds an error for each choice of the pipeline's schedule that does not fit another one.
static void checkSchedule(const CompileOptions &options, std::vector<std::string> &errors) {
  int64_t p = options.pp, v = options.chunks(), m = options.microBatches();
  Schedule schedule = options.scheduleKind();
  if (!options.stages.empty() && int64_t(options.stages.size()) != p * v)
    errors.push_back(support::text("--stages gives the layers of ", support::counted(options.stages.size(), "stage"),
                                   ", and there are ", p * v, v > 1 ? support::text(" (pp ", p, " x ", v, " virtual)") : "",
                                   ": give one number for each, or auto"));
  if (options.infer)
    return;
  std::string asked = options.schedule ? support::text("--schedule ", nameOf(schedule))
                                       : support::text("--virtual-stages ", v);
  if (p < 2 && (schedule == Schedule::Interleaved || schedule == Schedule::ZeroBubble))
    errors.push_back(support::text(asked, " is for several stages, and pp is 1; use --pp 2 or more, or --schedule 1f1b"));
  if (schedule != Schedule::Interleaved) {
    if (v > 1)
      errors.push_back(support::text("--schedule ", nameOf(schedule), " runs one chunk of layers a stage; use "
                                     "--virtual-stages 1 or --schedule interleaved"));
    return;
  }
  if (v < 2)
    errors.push_back("--schedule interleaved runs at least two chunks of layers a stage; use --virtual-stages 2 "
                     "or more, or --schedule 1f1b");
  if (m % p != 0) {
    int64_t rows = options.batchRows(), below = m / p * p;
    auto batch = [&](int64_t count) {
      return support::text(count, " (--global-batch ", count * rows, ")");
    };
    errors.push_back(support::text(asked, " runs micro-batches in groups of pp = ", p, ", and ", m,
                                   " are no multiple of it; the nearest valid numbers are ",
                                   below ? batch(below) + " and " : std::string(), batch(below + p)));
  }
}

// Adds an error for each choice that does not fit another one, or the tokens of a row.
static void checkChoices(const CompileOptions &options, int64_t tokens, std::vector<std::string> &errors) {
  if (options.lossScale != 0 && options.precision != Precision::Fp16)
    errors.push_back("--loss-scale is for --precision fp16: gradients in fp32 and bf16 do not "
                     "vanish; leave it out");
  if (options.scalesLoss() && options.lossScale == 0 && !options.skipsNonfinite())
    errors.push_back("--on-nonfinite stop ends every run whose --loss-scale is dynamic, which grows until "
                     "a gradient overflows; use --on-nonfinite skip or a number for --loss-scale");
  // Asks for the stage that was chosen, not for what the mesh makes of it: one choice fits all meshes.
  if (options.gatherAhead != 1 && options.zero != 3)
    errors.push_back("--gather-ahead is for --zero 3: no weights are gathered; leave it out");
  Precision precision = options.precision.value_or(Precision::Fp32);
  if (!options.infer && options.gradDtype != Precision::Fp32 && options.gradDtype != precision)
    errors.push_back(std::string("--grad-dtype ") + nameOf(options.gradDtype) +
                     " does not fit --precision " + nameOf(precision) +
                     ": gradients are sums in fp32, or in the type of the weights; use --grad-dtype "
                     "fp32 or --precision " + nameOf(options.gradDtype));
  // Only the loss scale of fp16 keeps sums of gradients inside of its range.
  if (!options.infer && options.reduceDtype == Precision::Fp16 && precision != Precision::Fp16)
    errors.push_back(std::string("--reduce-dtype fp16 does not fit --precision ") + nameOf(precision) +
                     ": sums of gradients exceed fp16 without a loss scale; use --reduce-dtype bf16 or "
                     "--precision fp16");
  checkSchedule(options, errors);
  int64_t parts = options.tp * options.cp;
  if (options.tp > 1 && options.sequenceParallel.value_or(false) && !options.cutsSequence(tokens))
    errors.push_back(support::text(
        "--sequence-parallel on shares out ", tokens, " tokens of a row over tp",
        options.cp > 1 ? " times cp" : "", " = ", parts,
        " ranks, which do not divide them; the nearest valid numbers of tokens (--seq, or --dim of an ONNX "
        "file) are ", tokens < parts ? std::string() : support::text(tokens / parts * parts, " and "),
        (tokens / parts + 1) * parts, ", if the model has so many positions; or leave it off"));
  if (!options.infer && options.recompute == Recompute::Auto && options.memoryLimit == 0)
    errors.push_back("--recompute auto computes again as little as fits --memory-limit: give the bytes that the "
                     "arena of a rank may take, or choose none, selective or full");
}

// Returns the routers of mixtures of experts.
static llvm::SmallVector<graph::RouteOp> routersOf(ModuleOp module) {
  llvm::SmallVector<graph::RouteOp> routers;
  module.walk([&](graph::RouteOp op) {
    if (op.getMixture())
      routers.push_back(op);
  });
  return routers;
}

// Returns whether the model chooses by scores: what follows may be a mixture of experts that was not recognised.
static bool hasChoices(ModuleOp module) {
  return module.walk([](graph::RouteOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

// Returns the room that a rank has for the rows of a router.
static train::ExpertRoom roomOf(graph::RouteOp op, int64_t ranks, double budget) {
  return {op.getRoutes().getType().getShape().back(), op.getScores().getType().getShape().back(), ranks, budget};
}

// Returns the budget with which a rank has room for all rows that its experts could get.
static double mostBudget(ModuleOp module, int64_t ranks) {
  double most = 1;
  for (graph::RouteOp op : routersOf(module)) {
    double choices = double(op.getRoutes().getType().getShape().back());
    most = std::max(most, double(roomOf(op, ranks, 1).most) / choices);
  }
  return most;
}

// Returns the budget that a plan has: an inference has nothing to run again.
static double moeBudget(ModuleOp module, const CompileOptions &options) {
  double most = mostBudget(module, options.ep);
  if (parallel::isInference(module) || options.roomForAll)
    return most;
  return options.moeBudget > 0 ? options.moeBudget : std::min(CompileOptions::kMoeBudget, most);
}

bool mayLackRoom(ModuleOp module, const CompileOptions &options) {
  if (options.ep <= 1)
    return false;
  double budget = moeBudget(module, options);
  return llvm::any_of(routersOf(module),
                      [&](graph::RouteOp op) { return roomOf(op, options.ep, budget).mayLack(); });
}

CompileOptions optionsForRetry(const CompileOptions &options) {
  CompileOptions retry = options;
  retry.roomForAll = retry.countsLost = true;
  retry.memoryLimit = 0;
  if (retry.recompute == Recompute::Auto) // which asks for a limit
    retry.recompute = Recompute::Full;
  retry.dumpFolder.clear();
  retry.afterPhase = nullptr;
  return retry;
}

// Adds an error if ranks cannot have as many experts each.
static void checkSharesOfExperts(ModuleOp module, int64_t ranks, std::vector<std::string> &errors) {
  std::set<int64_t> counts;
  for (graph::RouteOp op : routersOf(module))
    counts.insert(op.getScores().getType().getShape().back());
  for (int64_t experts : counts) {
    if (experts % ranks == 0)
      continue;
    std::string sizes;
    for (int64_t size = 1; size <= experts; ++size)
      if (experts % size == 0)
        sizes += " " + std::to_string(size);
    errors.push_back(support::text("--ep ", ranks, ": ", experts, " experts cannot be shared out evenly over ep = ", ranks,
                                   " ranks; valid sizes of ep are", sizes));
  }
}

// Adds an error for each choice of experts that does not fit the mesh.
static void checkExperts(ModuleOp module, const CompileOptions &options, const planfile::MeshSizes &sizes,
                         int64_t tokens, bool hasExperts, std::vector<std::string> &errors) {
  std::string useless = options.etp > 1           ? "--etp"
                        : options.moeBudget > 0   ? "--moe-budget"
                        : options.moeCapacity > 0 ? "--moe-capacity"
                                                  : "";
  // One that was not recognised has been remarked on: its experts run on every rank.
  if (!hasExperts && !hasChoices(module) && sizes.ep > 1)
    errors.push_back(support::text("--ep ", sizes.ep, " shares out experts, and no mixture of experts is found in the "
                                   "model; leave it out"));
  checkSharesOfExperts(module, sizes.ep, errors);
  if (!hasExperts && !useless.empty())
    errors.push_back(useless + " is for mixtures of experts, and none is found in the model; leave it out");
  if (hasExperts && options.moeBudget > 0 && sizes.ep == 1)
    errors.push_back("--moe-budget is for experts on other ranks, and ep is 1: no row is sent; leave it out");
  if (sizes.etp > options.tp)
    errors.push_back(support::text("--etp ", sizes.etp, " shares out an expert over ranks that have other tokens; "
                                   "use --etp ", options.tp, ", that is tp, or less"));
  bool spansTensors = sizes.ep > 1 && sizes.etp < options.tp;
  if (spansTensors && !options.cutsSequence(tokens))
    errors.push_back(support::text(
        "--ep ", sizes.ep, " with etp ", sizes.etp, " gives experts to ranks of tp, which have the same tokens "
        "unless they share out those of a row: use --sequence-parallel on with a multiple of tp x cp = ",
        options.tp * options.cp, " tokens a row, or --etp ", options.tp, " and an ep that fits dp x cp"));
}

namespace {
// Holds how experts are balanced, which the options and the model's config say together.
struct BalanceChoice {
  Balance kind = Balance::None;
  double auxLoss = 0, biasRate = 0; // 0 unless the kind has it
};
} // namespace

// Returns how experts are balanced. What a config says of its routers is an attribute of the import.
static BalanceChoice balanceOf(ModuleOp module, const CompileOptions &options) {
  BalanceChoice choice;
  if (options.infer)
    return choice;
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  auto stated = model ? model.getAs<DictionaryAttr>("router_loss") : DictionaryAttr();
  auto factor = stated ? stated.getAs<FloatAttr>("factor") : FloatAttr();
  double configured = factor ? factor.getValueAsDouble() : 0;
  bool asked = stated && stated.getAs<UnitAttr>("asked") && configured > 0;
  choice.kind = options.moeBalance.value_or(asked ? Balance::Aux : Balance::None);
  if (choice.kind == Balance::Aux)
    choice.auxLoss = options.moeAuxLoss.value_or(configured);
  if (choice.kind == Balance::Bias)
    choice.biasRate = options.moeBiasRate.value_or(CompileOptions::kBiasRate);
  return choice;
}

// Returns whether every router of the model adds a bias to the scores by which it chooses.
static bool hasBiases(ModuleOp module) {
  return llvm::all_of(routersOf(module), [](graph::RouteOp op) { return op.getBias() != Value(); });
}

// Adds an error for each choice of balance that does not fit another one, or the model.
static void checkBalance(ModuleOp module, const CompileOptions &options, bool hasExperts,
                         std::vector<std::string> &errors) {
  BalanceChoice choice = balanceOf(module, options);
  if (!hasExperts && choice.kind != Balance::None)
    errors.push_back(std::string("--moe-balance ") + nameOf(choice.kind) +
                     " is for mixtures of experts, and none is found in the model; leave it out");
  for (auto [flag, isGiven, kind] : {std::tuple("--moe-aux-loss", options.moeAuxLoss.has_value(), Balance::Aux),
                                     {"--moe-bias-rate", options.moeBiasRate.has_value(), Balance::Bias}})
    if (isGiven && choice.kind != kind)
      errors.push_back(support::text(flag, " is for --moe-balance ", nameOf(kind), ", and the balance is ",
                                     nameOf(choice.kind), "; give both or none"));
  if (!hasExperts)
    return;
  if (choice.kind == Balance::Aux && !(choice.auxLoss > 0))
    errors.push_back("--moe-balance aux takes the factor of its loss from a config.json "
                     "(\"router_aux_loss_coef\", \"aux_loss_alpha\"), and this model has none: give --moe-aux-loss F");
  if (choice.kind == Balance::Bias && !hasBiases(module))
    errors.push_back("--moe-balance bias moves the biases that routers add to scores for the choice alone "
                     "(\"e_score_correction_bias\" of DeepSeek-V3), and none is found of a router of this "
                     "model, nor ever of an ONNX file; take a config.json, or --moe-balance aux");
}

// Returns the rates of dropout: those of the model's config are an attribute of the import. Nullopt
// if they are asked for and the model has none.
static std::optional<DropoutRates> dropoutRates(ModuleOp module, const CompileOptions &options) {
  DropoutRates rates;
  if (!options.configDropout) {
    double rate = options.infer ? 0 : options.dropout.value_or(0);
    return DropoutRates{rate, rate, rate, rate};
  }
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  auto stated = model ? model.getAs<DictionaryAttr>("dropout") : DictionaryAttr();
  if (!stated)
    return std::nullopt;
  const std::pair<const char *, double *> places[] = {{"embedding", &rates.embedding},
                                                      {"attention", &rates.attention},
                                                      {"attention_output", &rates.attentionOutput},
                                                      {"mlp_output", &rates.mlpOutput}};
  for (auto [name, rate] : places)
    if (auto value = stated.getAs<FloatAttr>(name))
      *rate = value.getValueAsDouble();
  return rates;
}

// Describes rates for people; empty if nothing is dropped.
static std::string ratesText(const DropoutRates &rates) {
  if (!rates.any())
    return "";
  bool isOne = rates.embedding == rates.attention && rates.attention == rates.attentionOutput;
  if (isOne && rates.attentionOutput == rates.mlpOutput)
    return support::realText(rates.embedding);
  std::string residual = "residual " + support::realText(rates.mlpOutput);
  if (rates.attentionOutput != rates.mlpOutput)
    residual = "attention output " + support::realText(rates.attentionOutput) + ", MLP output " +
               support::realText(rates.mlpOutput);
  return "embedding " + support::realText(rates.embedding) + ", attention " + support::realText(rates.attention) +
         ", " + residual;
}

// Records in attributes what later phases must know and the IR does not hold: mesh and options.
// Emits errors and fails if the mesh is invalid. Routers of an ONNX file are known when the module is raised.
static LogicalResult setAttributes(ModuleOp module, const CompileOptions &options, bool isRaised) {
  Builder b(module.getContext());
  auto name = [&](llvm::StringRef text) { return b.getStringAttr(text); };
  int64_t tokens = tokensOf(module);
  std::vector<std::string> errors;
  // Nothing is refused for a mixture that may still be found.
  bool mixes = !routersOf(module).empty() || (!isRaised && hasChoices(module));
  planfile::MeshSizes sizes = options.meshSizes(mixes);
  std::optional<planfile::AtomicAxes> axes = planfile::deriveAxes(sizes, errors);
  checkExperts(module, options, sizes, tokens, mixes, errors);
  checkBalance(module, options, mixes, errors);
  checkChoices(options, tokens, errors);
  std::optional<DropoutRates> dropout = dropoutRates(module, options);
  if (!dropout)
    errors.push_back("--dropout config takes the rates of a config.json, and this model has none: give "
                     "--dropout a rate, or the model's config.json as MODEL");
  for (const std::string &error : errors)
    module.emitError(error);
  if (!errors.empty())
    return failure();
  module->setAttr(parallel::kMesh, parallel::MeshAttr::get(b.getContext(), *axes));
  auto entry = [&](llvm::StringRef key, Attribute value) { return b.getNamedAttr(key, value); };
  int64_t microBatch = options.microBatch, microBatches = options.microBatches(),
          rows = options.globalRows();
  bool infer = parallel::isInference(module);
  if (infer) {
    // An inference runs the whole batch at once; the data tactic checks that dp divides it.
    auto batch = module->getAttrOfType<IntegerAttr>(graph::kBatch);
    rows = batch ? std::max<int64_t>(1, batch.getInt()) : 1;
    microBatch = std::max<int64_t>(1, rows / options.dp);
    microBatches = 1;
    recordInputs(module);
  }
  // The last entries serve to import the model again and compare it with a dump.
  llvm::SmallVector<NamedAttribute> dims;
  for (const auto &[dim, size] : options.dims)
    dims.push_back(entry(dim, b.getI64IntegerAttr(size)));
  llvm::SmallVector<NamedAttribute> entries = {
      entry("schedule", name(nameOf(options.scheduleKind()))),
      entry("micro_batch", b.getI64IntegerAttr(microBatch)),
      entry("micro_batches", b.getI64IntegerAttr(microBatches)),
      entry("global_batch", b.getI64IntegerAttr(rows)),
      entry("optimizer", name(infer                                     ? "none"
                              : options.optimizer == Optimizer::AdamW ? "adamw"
                                                                        : "sgd")),
      entry("tie", name(nameOf(options.tie))),
      entry("raise", name(options.raise ? "on" : "off")),
      entry("weights", name(options.weights)),
      entry("dims", b.getDictionaryAttr(dims))};
  if (options.precision)
    entries.push_back(entry("precision", name(nameOf(*options.precision))));
  if (options.gradDtype != Precision::Fp32)
    entries.push_back(entry("grad_dtype", name(nameOf(options.gradDtype))));
  if (options.reduceDtype)
    entries.push_back(entry("reduce_dtype", name(nameOf(*options.reduceDtype))));
  if (int zero = options.zeroStage())
    entries.push_back(entry("zero", b.getI64IntegerAttr(zero)));
  if (options.tp > 1)
    entries.push_back(entry("sequence_parallel", name(options.cutsSequence(tokens) ? "on" : "off")));
  if (options.cp > 1)
    entries.push_back(entry("cp_kind", name(nameOf(options.cpKind))));
  if (options.chunks() > 1)
    entries.push_back(entry("virtual_stages", b.getI64IntegerAttr(options.chunks())));
  if (!options.stages.empty())
    entries.push_back(entry("stages", b.getDenseI64ArrayAttr(options.stages)));
  if (options.recompute != Recompute::None)
    entries.push_back(entry("recompute", name(nameOf(options.recompute))));
  if (options.dropout || options.configDropout)
    entries.push_back(entry("dropout", name(options.configDropout ? "config" : support::realText(*options.dropout))));
  if (std::string rates = ratesText(*dropout); !rates.empty())
    entries.push_back(entry("dropout_rates", name(rates)));
  if (sizes.ep > 1) {
    entries.push_back(entry("moe_budget", b.getF64FloatAttr(moeBudget(module, options))));
    entries.push_back(entry("moe_budget_most", b.getF64FloatAttr(mostBudget(module, sizes.ep))));
  }
  if (options.moeCapacity > 0)
    entries.push_back(entry("moe_capacity", b.getF64FloatAttr(options.moeCapacity)));
  if (BalanceChoice balance = balanceOf(module, options); balance.kind != Balance::None) {
    entries.push_back(entry("moe_balance", name(nameOf(balance.kind))));
    if (balance.kind == Balance::Aux)
      entries.push_back(entry("moe_aux_loss", b.getF64FloatAttr(balance.auxLoss)));
    else
      entries.push_back(entry("moe_bias_rate", b.getF64FloatAttr(balance.biasRate)));
  }
  if (options.memoryLimit)
    entries.push_back(entry("memory_limit", b.getI64IntegerAttr(options.memoryLimit)));
  if (!options.fuse)
    entries.push_back(entry("fuse", b.getBoolAttr(false)));
  if (options.gatherAhead != 1)
    entries.push_back(entry("gather_ahead", b.getI64IntegerAttr(options.gatherAhead)));
  if (options.lossScale != 0)
    entries.push_back(entry("loss_scale", b.getF64FloatAttr(options.lossScale)));
  if (options.skipNonfinite)
    entries.push_back(entry("on_nonfinite", name(*options.skipNonfinite ? "skip" : "stop")));
  module->setAttr("plan.options", b.getDictionaryAttr(entries));
  return success();
}

static std::string elementType(Precision precision) {
  return precision == Precision::Bf16 ? "bf16" : precision == Precision::Fp16 ? "f16" : "f32";
}

static ScheduleOptions scheduleOptions(const CompileOptions &options, bool infer) {
  ScheduleOptions schedule;
  schedule.schedule = nameOf(options.scheduleKind());
  schedule.microBatches = infer ? 1 : options.microBatches();
  schedule.recompute = nameOf(options.recompute);
  schedule.fuse = options.fuse;
  schedule.gatherAhead = options.gatherAhead;
  return schedule;
}

static void buildPhase(OpPassManager &pm, Phase phase, const CompileOptions &options,
                       ModuleOp module) {
  bool infer = parallel::isInference(module);
  switch (phase) {
  case Phase::Import:
    break;
  case Phase::Raise:
    // Import leaves one op per node of the file; layers, attention and norms are found here.
    // Without --raise, shapes and weights are folded still.
    buildRaisePipeline(pm, {options.raise});
    break;
  case Phase::Train:
    // Differentiation comes before sharding: gradients belong to the global program. An inference
    // has none.
    if (infer)
      buildDivisionPipeline(pm, {options.pp, 1, options.stages});
    if (infer)
      buildExpertPipeline(pm, {options.ep, moeBudget(module, options), options.moeCapacity});
    if (infer && options.precision)
      buildPrecisionPipeline(pm, elementType(*options.precision));
    if (!infer)
      buildTrainPipeline(pm, {options.optimizer == Optimizer::AdamW,
                              elementType(options.precision.value_or(Precision::Fp32)),
                              elementType(options.gradDtype), options.scalesLoss(),
                              options.skipsNonfinite(),
                              dropoutRates(module, options).value_or(DropoutRates()),
                              options.cp, options.cpKind == CpKind::Ring,
                              {options.pp, options.chunks(), options.stages},
                              {options.ep, moeBudget(module, options), options.moeCapacity,
                               balanceOf(module, options).auxLoss, balanceOf(module, options).biasRate,
                               options.countsLost, /*countsDropped=*/true},
                              options.verifiesIr});
    break;
  case Phase::Shard:
    // Tensors are annotated with the mesh axes that cut them; types stay global.
    buildShardPipeline(pm, {options.zeroStage(), options.cutsSequence(tokensOf(module)),
                          options.cp > 1 && options.cpKind == CpKind::Ring, options.verifiesIr});
    break;
  case Phase::Partition:
    // At this one boundary global types become local and collectives appear.
    buildPartitionPipeline(pm, options.reduceDtype ? elementType(*options.reduceDtype) : "", options.verifiesIr);
    break;
  case Phase::Schedule:
    // Values become bytes of an arena, functions become tables of instructions.
    buildSchedulePipeline(pm, scheduleOptions(options, infer));
    break;
  case Phase::Emit:
    // Launches get kernels; afterwards only the plan file has to be written.
    buildEmitPipeline(pm, /*cuda=*/!options.cudaKernels.empty());
    break;
  }
}

std::string dumpPath(const std::string &folder, Phase phase) {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, "model." + std::to_string(static_cast<int>(phase)) + "-" +
                                    std::string(toString(phase)) + ".mlir");
  return path.str().str();
}

static LogicalResult dump(ModuleOp module, const std::string &folder, Phase phase) {
  support::Status status = support::makeDirectory(folder);
  if (status)
    status = writeDump(module, phase, dumpPath(folder, phase));
  if (!status)
    return emitError(UnknownLoc::get(module.getContext())) << status.message();
  return success();
}

// Puts sources behind all else: there may be one for each expert of each layer, and every lookup of a state or
// function by its name would pass them.
static void moveSourcesToEnd(ModuleOp module) {
  for (auto source : llvm::to_vector(module.getOps<graph::SourceOp>()))
    source->moveBefore(module.getBody(), module.getBody()->end());
}

LogicalResult findKernels(ModuleOp module, const CompileOptions &options) {
  PassManager pm(module.getContext());
  pm.enableVerifier(options.verifiesIr);
  buildKernelPipeline(pm, scheduleOptions(options, parallel::isInference(module)));
  return runPasses(pm, module);
}

LogicalResult runPhases(ModuleOp module, const CompileOptions &options, Phase from, Phase to,
                        Phase *failedIn) {
  if (failed(setAttributes(module, options, from >= Phase::Raise)))
    return failure();
  for (int i = static_cast<int>(from) + 1; i <= static_cast<int>(to); ++i) {
    Phase phase = static_cast<Phase>(i);
    // Sets them anew when the mixtures of the model are found.
    if (phase == Phase::Train && failed(setAttributes(module, options, /*isRaised=*/true)))
      return failure();
    // Training adds states, which would lie behind all sources.
    if ((from == Phase::Import && phase == Phase::Raise) || phase == Phase::Shard)
      moveSourcesToEnd(module);
    if (failedIn)
      *failedIn = phase;
    bool infer = parallel::isInference(module), plans = phase == Phase::Schedule;
    if (plans && !infer && options.recompute == Recompute::Auto &&
        failed(fitMemory(module, scheduleOptions(options, infer), options.memoryLimit)))
      return failure();
    PassManager pm(module.getContext());
    pm.enableVerifier(options.verifiesIr);
    buildPhase(pm, phase, options, module);
    if (failed(runPasses(pm, module)) ||
        (plans && options.memoryLimit && failed(checkMemory(module, infer, options.memoryLimit))))
      return failure();
    if (options.afterPhase)
      options.afterPhase(phase, module);
    if (!options.dumpFolder.empty() && failed(dump(module, options.dumpFolder, phase)))
      return failure();
  }
  return success();
}

bool changesModel(ModuleOp module, const CompileOptions &options) {
  return options.dropout.value_or(0) > 0 || options.configDropout || options.moeCapacity > 0 ||
         balanceOf(module, options).kind != Balance::None;
}

LogicalResult changeModel(ModuleOp module, const CompileOptions &options) {
  PassManager pm(module.getContext());
  buildDropoutPipeline(pm, dropoutRates(module, options).value_or(DropoutRates()));
  BalanceChoice balance = balanceOf(module, options);
  buildExpertPipeline(pm, {1, 1, options.moeCapacity, balance.auxLoss, balance.biasRate});
  return runPasses(pm, module);
}

} // namespace llmc

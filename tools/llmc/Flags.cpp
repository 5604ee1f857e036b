#include "tools/llmc/Flags.h"

#include "lib/support/FlagSetters.h"
#include "tools/llmc/BudgetFlags.h"
#include "tools/llmc/FlagValues.h"

namespace llmc {
using support::choose;
using support::put;
using support::text;
using support::whole;
using predict::PriceOptions;
namespace {

using Entries = std::vector<support::FlagTable<CommandLine>::Entry>;

constexpr unsigned kChoice = kCompile | kVerify, kModel = kChoice | kInspect;
constexpr unsigned kClustered = kPlan | kCompile | kTrace | kExplain | kReport | kCompare; // that a cluster can be told
constexpr unsigned kPriced = kChoice | kPlan; // of choices that a prediction takes, too
constexpr unsigned kEverywhere = kModel | kPlan | kExplain | kNoCommand | kDraws | kTrace | kCalibrate | kBudget | kReport | kCompare;

// Returns a way to a choice of compilation.
template <class T> auto of(T CompileOptions::*field) {
  return [=](CommandLine &line) -> T & { return line.options.*field; };
}

// Returns the rules of a flag that inference refuses, and what to do instead.
support::Flag::Rules training(support::Flag::Rules rules, const char *instead) {
  rules.refusedWith = "--infer";
  rules.refusal = text("is for training; with --infer ", instead);
  return rules;
}

// Lets a flag have the value auto, which llmc plan and llmc compile find.
Entries::value_type orAuto(Entries::value_type entry) {
  if (!entry.flag.rules.values.empty())
    entry.flag.rules.values.push_back("auto");
  else if (std::string_view(entry.flag.value) == "N")
    entry.flag.value = "N|auto";
  entry.set = [name = std::string(entry.flag.name), set = std::move(entry.set)](CommandLine &line, const support::GivenFlag &given,
                                                                               support::Problems &problems) {
    if (given.value == "auto")
      line.autos.push_back(name);
    else if (set)
      set(line, given, problems);
  };
  return entry;
}

// Makes a flag for a count of at least 1.
template <class Field>
Entries::value_type count(const char *name, unsigned modes, const char *help, const char *standard,
                          Field field) {
  return {{name, modes, "N", help, {.standard = standard}}, whole(field, 1, kMost)};
}

// Makes the flag of an axis of the mesh.
Entries::value_type axis(const char *name, const char *help, const char *standard) {
  planfile::AxisRole role = *planfile::roleNamed(name + 2);
  auto entry = count(name, kPriced, help, standard, [=](CommandLine &line) -> int64_t & { return line.options.of(role); });
  return role == planfile::AxisRole::ExpertData ? entry : orAuto(entry);
}

// Makes the flag of a choice with one value so far: others are refused by name, never ignored.
Entries::value_type later(const char *name, const char *built, std::vector<std::string> values,
                          const char *inference = nullptr) {
  support::Flag::Rules rules{.standard = built, .values = {built}, .later = std::move(values)};
  return {{name, kChoice, "VALUE", nullptr, inference ? training(rules, inference) : rules}};
}

// Makes the flag of a choice of which compile has one value, and llmc plan prices others.
Entries::value_type priced(const char *name, const char *built, std::vector<std::string> values) {
  auto entry = later(name, built, std::move(values));
  entry.flag.rules.instead = text("llmc plan prices it; use ", built);
  return entry;
}

Entries batchFlags() {
  constexpr const char *kBatch = "the batch is a dimension of the model: bind it with --dim NAME=N";
  auto micro = count("--micro-batch", kPriced, "rows of one micro-batch of one data-parallel rank",
                     "1", of(&CompileOptions::microBatch));
  auto global = count("--global-batch", kPriced, "rows of a step",
                      "4 x dp x pp x micro-batch; of a search: of 4 Mi tokens", of(&CompileOptions::globalBatch));
  for (auto *entry : {&micro, &global})
    entry->flag.rules = training(entry->flag.rules, kBatch);
  return {
      orAuto(micro), global,
      count("--seq", kModel | kPlan, "tokens of a row", "bound dim, or min(context, 4096)",
            of(&CompileOptions::sequence)),
      {{"--dim", kModel | kPlan, "NAME=N[,NAME=N]",
        "binds symbolic dimensions of the model; with --infer the\nbatch too, which dp divides",
        {.repeats = true}},
       addDims},
  };
}

Entries meshFlags() {
  return {
      {{"--train", kModel | kPlan | kDraws, nullptr, "the program trains MODEL",
        {.standard = "it does", .excludes = {"--infer"}}}},
      {{"--infer", kModel | kDraws, nullptr,
        "it takes every input of MODEL as it is and writes every output"},
       put(of(&CompileOptions::infer), true)},
      orAuto({{"--mesh", kPriced, "8 | 4x2 | 8x16x8 | dp=8,pp=16,tp=8 | auto",
               "ranks: dp; dp x tp; dp x pp x tp; by name; auto: the fastest that\nfits --gpus, with all choices that are not given",
               {.standard = "1"}},
              setMesh}),
      axis("--dp",
           "data-parallel ranks; so --pp, --tp, --cp, --ep, --etp, --edp, with\n"
           "dp x cp x tp = edp x ep x etp", "1"),
      axis("--pp", nullptr, nullptr),
      axis("--tp", nullptr, nullptr),
      axis("--cp", nullptr, nullptr),
      axis("--ep", nullptr, nullptr),
      axis("--etp", "ranks that share out what one expert computes", "tp; with --ep: 1"),
      axis("--edp", nullptr, nullptr),
  };
}

Entries choiceFlags() {
  return {
      orAuto({{"--schedule", kPriced, nullptr, "order of the micro-batches",
        training({.standard = "1f1b", .values = {"1f1b", "gpipe", "interleaved", "zero-bubble"}},
                 "each stage runs once; leave it out")},
       choose(of(&CompileOptions::schedule),
              std::vector<std::optional<Schedule>>{Schedule::OneFOneB, Schedule::GPipe, Schedule::Interleaved,
                                                   Schedule::ZeroBubble})}),
      orAuto({{"--virtual-stages", kPriced, "N",
        "chunks of layers that a stage runs in turn (interleaved)",
        training({.standard = "1; interleaved: 2"}, "each stage runs once; leave it out")},
       whole(of(&CompileOptions::virtualStages), 1, CompileOptions::kMostChunks)}),
      {{"--stages", kPriced, "auto|N,N,...",
        "layers of each virtual stage in the order of the model, 0 for\nan embedding or a head alone; auto: the least largest by FLOPs",
        {.standard = "auto"}},
       setStages},
      {{"--optimizer", kChoice, nullptr, "what updates the weights",
        training({.standard = "adamw", .values = {"adamw", "sgd"}},
                 "nothing is updated; leave it out")},
       choose(of(&CompileOptions::optimizer), std::vector{Optimizer::AdamW, Optimizer::Sgd})},
      {{"--precision", kChoice, nullptr,
        "of weights, activations and messages; low ones have fp32\nmasters, moments, statistics and loss",
        {.standard = "fp32; --infer: that of MODEL's weights", .values = {"fp32", "bf16", "fp16"},
         .later = {"fp8"}, .instead = "llmc plan prices it; use bf16"}},
       choose(of(&CompileOptions::precision),
              std::vector<std::optional<Precision>>{Precision::Fp32, Precision::Bf16,
                                                    Precision::Fp16})},
      {{"--grad-dtype", kChoice, nullptr, "of the sums of gradients over a step",
        training({.standard = "fp32", .values = {"fp32", "bf16", "fp16"}},
                 "there are no gradients; leave it out")},
       choose(of(&CompileOptions::gradDtype),
              std::vector{Precision::Fp32, Precision::Bf16, Precision::Fp16})},
      {{"--reduce-dtype", kChoice, nullptr,
        "of gradients that data-parallel ranks add",
        training({.standard = "--grad-dtype", .values = {"fp32", "bf16", "fp16"}},
                 "there are no gradients; leave it out")},
       choose(of(&CompileOptions::reduceDtype),
              std::vector<std::optional<Precision>>{Precision::Fp32, Precision::Bf16,
                                                    Precision::Fp16})},
      {{"--loss-scale", kChoice, "dynamic|X",
        "factor of the loss in fp16; dynamic: 65536, doubled after\n2000 steps, halved where a gradient overflows",
        training({.standard = "dynamic"}, "there is no loss; leave it out")},
       setLossScale},
      {{"--on-nonfinite", kChoice, nullptr,
        "what a step does whose gradients are not all finite: skip\nleaves the weights as they are, and 10 in a row end the run",
        training({.standard = "stop; fp16: skip", .values = {"skip", "stop"}},
                 "there are no gradients; leave it out")},
       choose(of(&CompileOptions::skipNonfinite),
              std::vector<std::optional<bool>>{true, false})},
  };
}

Entries expertFlags() {
  return {
      {{"--moe-budget", kPriced, "F",
        "rows of experts for which a rank has room, by their average;\na step that needs more runs again with room for all (--ep)",
        {.standard = "2"}},
       support::real(of(&CompileOptions::moeBudget), {.least = 1, .end = 1e6})},
      {{"--moe-capacity", kChoice, "F",
        "rows that an expert takes of each row of tokens, by their\naverage; those of later tokens are left out",
        {.standard = "all"}},
       support::real(of(&CompileOptions::moeCapacity), {.least = 1e-6, .end = 1e6})},
      {{"--moe-balance", kChoice, nullptr,
        "spreads tokens over experts; aux: by a loss of each row of tokens;\nbias: each step moves the biases of routers (DeepSeek-V3)",
        training({.standard = "none; aux if the config asks", .values = {"none", "aux", "bias"}},
                 "routers stay as they are; leave it out")},
       choose(of(&CompileOptions::moeBalance),
              std::vector<std::optional<Balance>>{Balance::None, Balance::Aux, Balance::Bias})},
      {{"--moe-aux-loss", kChoice, "F", "factor of the auxiliary loss of each router",
        training({.standard = "the config's"}, "there is no loss; leave it out")},
       support::real(of(&CompileOptions::moeAuxLoss), {.end = 1e6, .open = true})},
      {{"--moe-bias-rate", kChoice, "F", "what a step moves the bias of an expert by",
        training({.standard = "0.001"}, "routers stay as they are; leave it out")},
       support::real(of(&CompileOptions::moeBiasRate), {.end = 1e6, .open = true})},
  };
}

Entries layoutFlags() {
  return {
      {{"--dropout", kChoice, "P|config",
        "drops elements of embeddings, attention weights and branches at\n"
        "this rate; config: at the rates of MODEL's config.json",
        training({.standard = "0"}, "nothing is dropped; leave it out")},
       setDropout},
      orAuto({{"--zero", kPriced, nullptr,
        "stage of ZeRO: what data-parallel ranks share out; 1 masters and\n"
        "moments, 2 sums of gradients too, 3 weights too",
        training({.standard = "1", .values = {"0", "1", "2", "3"}},
                 "there are no states to share out; leave it out")},
       choose(of(&CompileOptions::zero), std::vector<std::optional<int>>{0, 1, 2, 3})}),
      orAuto({{"--sequence-parallel", kPriced, nullptr,
        "tp ranks share out the tokens of norms and residuals",
        {.standard = "on where tp divides the tokens; --infer: off", .values = {"on", "off"}}},
       choose(of(&CompileOptions::sequenceParallel), std::vector<std::optional<bool>>{true, false})}),
      {{"--cp-kind", kPriced, nullptr,
        "how attention sees the tokens of other cp ranks: keys and\nvalues go around a ring, or heads are exchanged for tokens",
        {.standard = "ring", .values = {"ring", "heads"}}},
       choose(of(&CompileOptions::cpKind), std::vector{CpKind::Ring, CpKind::Heads})},
      {{"--recompute", kChoice, nullptr,
        "what backward computes again in place of keeping it; selective:\n"
        "elementwise ops and norms; full: all of a layer from its input;\n"
        "auto: as little as fits --memory-limit",
        training({.standard = "none", .values = {"none", "selective", "full", "auto"}},
                 "nothing is kept for a backward pass; leave it out")},
       choose(of(&CompileOptions::recompute),
              std::vector{Recompute::None, Recompute::Selective, Recompute::Full, Recompute::Auto})},
      {{"--memory-limit", kChoice, "BYTES",
        "most bytes of the arena of a rank (weights, states,\nactivations and all else); what takes more is refused",
        {.standard = "none"}},
       whole(of(&CompileOptions::memoryLimit), 1, CompileOptions::kMostBytes)},
      {{"--no-fusion", kChoice, nullptr,
        "each op is a kernel of its own, with the same bits on any\nplan that runs it; for proofs"},
       put(of(&CompileOptions::fuse), false)},
      {{"--gather-ahead", kChoice, "N",
        "layers whose weights are gathered before their turn (--zero 3)",
        training({.standard = "1"}, "no weights are gathered; leave it out")},
       whole(of(&CompileOptions::gatherAhead), 0, CompileOptions::kMostAhead)},
      {{"--weights", kModel, "random|FILE|DIR", "where the program finds its weights",
        {.standard = "what MODEL holds"}},
       support::path(of(&CompileOptions::weights))},
      {{"--tie", kModel, nullptr,
        "auto: equal embedding and head are one parameter, equal\n"
        "tensors that an exporter stored once are several\n"
        "off: embedding and head are two\nexact: what the file holds once is one too",
        {.standard = "auto", .values = {"auto", "off", "exact"}}},
       choose(of(&CompileOptions::tie), std::vector{Tie::Auto, Tie::Off, Tie::Exact})},
      {{"--raise", kModel, nullptr, "recognise blocks, fold layers",
        {.standard = "on", .values = {"on", "off"}}},
       choose(of(&CompileOptions::raise), std::vector{true, false})},
  };
}

Entries laterFlags() {
  Entries flags = {
      later("--target", "cpu", {"cuda"}),
      priced("--attention", "flash", {"unfused"}),
      priced("--overlap", "on", {"off"}),
      priced("--software", "llmc", {"eager", "fused"}),
      later("--loss", "cross-entropy", {}, "there is no loss; leave it out"),
  };
  flags.front().flag.rules.instead = "use --target cpu, and --cuda-kernels all to add kernels "
                                     "that scripts/gpu-check.sh runs on a card";
  return flags;
}

// Returns a way to a choice that is priced.
template <class T> auto priceOf(T cost::Choices::*field) {
  return [=](CommandLine &line) -> T & { return line.prices.choices.*field; };
}

// Makes a flag of llmc plan that is on, off, or left to the profile.
Entries::value_type onOff(const char *name, const char *help, std::optional<bool> PriceOptions::*field) {
  return {{name, kPlan, nullptr, help, {.values = {"on", "off", "auto"}}},
          choose([=](CommandLine &line) -> std::optional<bool> & { return line.prices.*field; },
                 std::vector<std::optional<bool>>{true, false, std::nullopt})};
}

// Makes a flag of llmc plan with a type of numbers.
Entries::value_type number(const char *name, const char *help, std::optional<cost::Number> PriceOptions::*field,
                           std::vector<std::string> names, std::vector<std::optional<cost::Number>> numbers) {
  return {{name, kPlan, nullptr, help, {.values = std::move(names)}},
          choose([=](CommandLine &line) -> std::optional<cost::Number> & { return line.prices.*field; },
                 std::move(numbers))};
}

Entries clusterFlags() {
  auto of = [](auto field) { return [=](CommandLine &line) -> auto & { return line.prices.*field; }; };
  return {
      {{"--gpu", kClustered, "NAME", "accelerator: a100-40g, a100-80g, b200, b300, cpu, gb200, gb300,\nh100, h100-96g, h200"},
       support::word(of(&PriceOptions::gpu))},
      {{"--cluster", kClustered, "FILE", "description of a cluster (JSON), in place of --gpu", {.excludes = {"--gpu"}}},
       support::path(of(&PriceOptions::cluster))},
      {{"--gpus", kPlan | kCompile, "N", "accelerators of the run, for which a mesh is found", {.standard = "the ranks of the mesh"}},
       whole(of(&PriceOptions::gpus), 1, kMost)},
      {{"--gpus-per-node", kClustered, "N", "accelerators of a node", {.standard = "the cluster's"}},
       whole(of(&PriceOptions::gpusPerNode), 1, 4096)},
      {{"--nvlink-domain", kClustered, "N", "accelerators that reach each other over NVLink", {.standard = "the cluster's"}},
       whole(of(&PriceOptions::nvlinkDomain), 1, 4096)},
      {{"--nic-gbytes", kClustered, "X", "GB/s of the network card of an accelerator, each way", {.standard = "the cluster's"}},
       support::real(of(&PriceOptions::nicGbytes), {.least = 0.01, .end = 1e4})},
      {{"--board-watts", kClustered, "X", "power limit of an accelerator", {.standard = "the cluster's"}},
       support::real(of(&PriceOptions::boardWatts), {.least = 10, .end = 1e5})},
      {{"--objective", kPlan | kCompile, nullptr,
        "what is found: the least time of a step on all of --gpus, or the\nmost tokens for a dollar, on fewer of them too",
        {.standard = "step", .values = {"step", "tokens_per_dollar"}}},
       support::word(&CommandLine::objective)},
      {{"--dollars-per-gpu-hour", kPlan | kCompile, "X", "what an accelerator costs"},
       support::real(&CommandLine::dollarsPerGpuHour, {.end = 1e6, .open = true})},
      {{"--simulate", kPlan, nullptr,
        "which plans are built and simulated beside their prediction:\nauto: those that take about a second",
        {.standard = "auto", .values = {"auto", "on", "off"}}},
       choose([](CommandLine &line) -> predict::Simulating & { return line.simulating; },
              std::vector{predict::Simulating::Auto, predict::Simulating::On, predict::Simulating::Off})},
  };
}

Entries priceFlags() {
  using cost::Number;
  auto prices = [](auto field) { return [=](CommandLine &line) -> auto & { return line.prices.*field; }; };
  return {
      {{"--software", kPlan, nullptr, "who wrote the kernels: llmc; fused (Transformer Engine, XLA, a\ncompiled PyTorch); "
        "eager, a kernel for each op",
        {.standard = "llmc", .values = {"llmc", "fused", "eager"}}},
       choose(priceOf(&cost::Choices::software),
              std::vector{cost::Profile::Llmc, cost::Profile::Fused, cost::Profile::Eager})},
      number("--precision", "of products; fp8 keeps 16 bits elsewhere. Without it bf16,\nof --gpu cpu fp32", &PriceOptions::precision,
             {"fp32", "bf16", "fp16", "fp8"}, {Number::Fp32, Number::Bf16, Number::Fp16, Number::Fp8}),
      number("--grad-dtype", "of the sums of gradients over a step", &PriceOptions::gradients,
             {"fp32", "bf16", "fp16", "auto"}, {Number::Fp32, Number::Bf16, Number::Fp16, std::nullopt}),
      number("--reduce-dtype", "of gradients that data-parallel ranks add", &PriceOptions::reduced,
             {"fp32", "bf16", "fp16", "auto"}, {Number::Fp32, Number::Bf16, Number::Fp16, std::nullopt}),
      number("--optimizer-dtype", "of moments; bf16: there are no fp32 masters either", &PriceOptions::moments,
             {"fp32", "bf16", "auto"}, {Number::Fp32, Number::Bf16, std::nullopt}),
      {{"--attention", kPlan, nullptr, "whether scores of attention stay on chip",
        {.standard = "flash", .values = {"flash", "unfused"}}},
       choose(prices(&PriceOptions::unfused), std::vector<std::optional<bool>>{false, true})},
      {{"--attention-kernel", kPlan, nullptr, "kernel of attention",
        {.standard = "the newest of the accelerator",
         .values = {"unfused", "fused_softmax", "triton", "flash1", "flash2", "flash3", "cudnn", "auto"}}},
       choose(prices(&PriceOptions::attention),
              std::vector<std::optional<cost::AttentionKernel>>{
                  cost::AttentionKernel::Unfused, cost::AttentionKernel::FusedSoftmax, cost::AttentionKernel::Triton,
                  cost::AttentionKernel::Flash1, cost::AttentionKernel::Flash2, cost::AttentionKernel::Flash3,
                  cost::AttentionKernel::Cudnn, std::nullopt})},
      {{"--recompute", kPlan, nullptr,
        "what backward computes again: selective: elementwise ops and norms,\nof other software the core of attention; full: all of a layer;\n"
        "auto: the core, or as few layers as it takes to fit",
        {.standard = "auto", .values = {"none", "selective", "full", "auto"}}},
       choose(of(&CompileOptions::recompute),
              std::vector{Recompute::None, Recompute::Selective, Recompute::Full, Recompute::Auto})},
      {{"--moe-dispatch", kPlan, nullptr, "how tokens reach their experts",
        {.standard = "alltoall", .values = {"alltoall", "allgather", "deepep", "hybridep", "auto"}}},
       choose(priceOf(&cost::Choices::dispatch),
              std::vector{cost::Dispatch::AllToAll, cost::Dispatch::AllGather, cost::Dispatch::DeepEp,
                          cost::Dispatch::HybridEp, cost::Dispatch::AllToAll})},
      {{"--offload", kPlan, nullptr, "what lies in the memory of the host",
        {.standard = "none", .values = {"none", "activations", "optimizer", "auto"}}},
       choose(priceOf(&cost::Choices::offload),
              std::vector{cost::Offload::None, cost::Offload::Activations, cost::Offload::Optimizer,
                          cost::Offload::None})},
      onOff("--overlap", "data-parallel traffic behind compute", &PriceOptions::overlap),
      onOff("--cuda-graphs", "launch graphs in place of kernels", &PriceOptions::cudaGraphs),
      onOff("--launch-blocking", "every launch waits for its end", &PriceOptions::launchBlocking),
      onOff("--ep-overlap", "exchanges of experts behind another micro-batch", &PriceOptions::expertOverlap),
      onOff("--tp-overlap", "tensor-parallel collectives behind products", &PriceOptions::tensorOverlap),
      onOff("--pipeline-scatter", "each tp rank sends its part to the next stage", &PriceOptions::pipelineScatter),
  };
}

// Returns the names of phases from raise to `last`.
std::vector<std::string> phasesTo(Phase last) {
  return {phaseNames.begin() + 1, phaseNames.begin() + 1 + size_t(last)};
}

// Sets a phase by its name.
template <class Field> auto phase(Field field) {
  return [=](CommandLine &line, const support::GivenFlag &given, support::Problems &) {
    line.*field = *parsePhase(given.value);
  };
}

Entries compileFlags() {
  return {
      {{"--cuda-kernels", kCompile, "all | sm_80,sm_90,sm_100",
        "also carries its kernels for these chips, for\n"
        "scripts/gpu-check.sh; needs a CUDA assembler", {.standard = "none"}},
       addCudaKernels},
      {{"--output", kCompile | kTrace | kCalibrate | kReport, "OUT",
        "what is made: the program, or IR with --compile-to; the trace, for\n"
        "Perfetto; the cluster file; the page. Replaces a file of that name,\nnever one that is read", {.brief = "-o"}},
       support::path(of(&CompileOptions::output))},
      {{"--compile-to", kCompile, "PHASE",
        "stop after raise, train, shard, partition, schedule; OUT is IR",
        {.values = phasesTo(Phase::Emit)}},
       phase(&CommandLine::compileTo)},
      {{"--compile-from", kCompile, "PHASE",
        "MODEL is IR that --compile-to PHASE wrote, which says so itself",
        {.values = phasesTo(Phase::Schedule)}},
       phase(&CommandLine::compileFrom)},
      {{"--dump-phases", kCompile, "DIR", "writes DIR/model.N-PHASE.mlir after each phase"},
       support::path(of(&CompileOptions::dumpFolder))},
  };
}

Entries verifyFlags() {
  using Twin = CommandLine::Twin;
  return {
      {{"--after", kVerify, "PHASE",
        "only the phase boundary after raise, train, shard, partition, schedule",
        {.values = phasesTo(Phase::Schedule),
         .excludes = {"--interleavings", "--mutate", "--mutants"}}},
       phase(&CommandLine::after)},
      {{"--seed", kVerify | kDraws, "S", "of rows, labels and drawn weights", {.standard = "1"}},
       whole(&CommandLine::seed, 0, kMost)},
      {{"--interleavings", kVerify, "N",
        "also run the plan N times with ranks, streams and transfers in\n"
        "drawn orders: equal bits, nothing read before it is written"},
       whole(&CommandLine::interleavings, 1, kMost)},
      {{"--oracle", kVerify, "PYTHON",
        "also run MODEL's own file in this Python: ONNX Runtime and\n"
        "PyTorch, or transformers; alone: that of LLMC_ORACLE_PYTHON",
        {.environment = "LLMC_ORACLE_PYTHON"}},
       support::path(&CommandLine::oracle)},
      {{"--mutate", kVerify, nullptr,
        "also break the plan in every small way; each fault must be\n"
        "found by a check, or shown to change nothing"},
       put(&CommandLine::mutate, true)},
      {{"--mutants", kVerify, "N", "the same with at most N faults of each kind"},
       whole(&CommandLine::mutants, 1, kMost)},
      {{"--without", kVerify, "CHECKER",
        "for tests of --mutate: the static checker CHECKER (happens-before, ...)\n"
        "does not look; what it alone had found must be seen to survive",
        {.needs = {"--mutate", "--mutants"}}},
       support::word(&CommandLine::without)},
      {{"--twin", kVerify, nullptr,
        "run a scaled-down model of the same structure in place of the plan,\n"
        "and show that the two plans are isomorphic; auto: if the plan\nis too large to run here",
        {.standard = "auto", .values = {"auto", "on", "off"}}},
       choose(&CommandLine::twin, std::vector{Twin::Auto, Twin::On, Twin::Off})},
      {{"--draws", kVerify | kDraws, "N",
        "N drawn models, meshes, batches, schedules in place of MODEL"},
       whole(&CommandLine::draws, 1, kMost)},
  };
}

Entries pageFlags() {
  auto of = [](auto field) { return [=](CommandLine &line) -> auto & { return line.measured.*field; }; };
  return {
      {{"--measured", kReport, "TRACE", "a file of OUT --trace TRACE, which the page shows beside the forecast"},
       support::path(of(&page::MeasuredFiles::trace))},
      {{"--metrics", kReport, "FILE", "a file of OUT --metrics FILE, the same"}, support::path(of(&page::MeasuredFiles::metrics))},
      {{"--report", kPlan, "FILE", "also writes the prediction as a page (HTML)"}, support::path(&CommandLine::report)},
  };
}

Entries commonFlags() {
  using support::Verbosity;
  return {
      {{"--quiet", kPriced | kDraws | kCalibrate, nullptr, "only errors",
        {.brief = "-q", .excludes = {"--verbose"}}},
       put(&CommandLine::verbosity, Verbosity::Quiet)},
      {{"--verbose", kChoice | kDraws | kCalibrate, nullptr, "also how long each phase took", {.brief = "-v"}},
       put(&CommandLine::verbosity, Verbosity::Verbose)},
      {{"--json", kInspect | kExplain | kVerify | kPlan | kDraws | kTrace | kBudget | kReport | kCompare, nullptr, "one object"},
       put(&CommandLine::json, true)},
      {{"--quick", kCalibrate, nullptr, "ten seconds or so: few sizes and programs, and predictions as rough"},
       put(&CommandLine::quick, true)},
      {{"--help", kEverywhere, nullptr, "this text", {.brief = "-h"}},
       put(&CommandLine::help, true)},
      {{"--version", kEverywhere, nullptr, "print the version", {.brief = "-V"}},
       put(&CommandLine::version, true)},
  };
}

// Makes flags of the program that is made, which are refused by name.
Entries programFlags() {
  Entries flags;
  for (const char *name :
       {"--data", "--steps", "--lr", "--save", "--metrics", "--input", "--seed"})
    flags.push_back(
        {{name, name == std::string_view("--metrics") ? kEverywhere & ~unsigned(kReport) : kEverywhere, "VALUE", nullptr,
          {.repeats = true, .hidden = true,
           .refusal = text("belongs to the program that is made: ./OUT ", name, " ...")}}});
  return flags;
}

constexpr const char *kCompileText = R"(
MODEL is an ONNX file, a config.json, a folder that holds one, or IR that --compile-to
wrote: that goes on from where it stands, with the mesh and choices that it was written
with. OUT is one program for all ranks of the mesh: it trains MODEL, or runs it once a
start. A flag is given once, --dim as often as there are names.
)";
constexpr const char *kInspectText = R"(
What is in a model (ONNX, config.json), as choices of compile would take it, or in a
program made by llmc compile, whose choices are its own.
)";
constexpr const char *kExplainText = R"(
Why a program made by llmc compile moves what it moves between ranks, and how its
ops are cut. Without NAME: the collectives and messages of a step, each with a name.

  NAME                   a collective or message by that name, a node or parameter of
                         the model, a kind of op (matmul, attention), or `schedule`:
                         what other orders of the micro-batches would change

With an accelerator by name, or the cluster of a file, also what each takes there, for how
much of that compute waits, and which other choice saves most: a command for each.
)";
constexpr const char *kCompareText = R"(
What differs between two programs made by llmc compile: mesh, choices, stages, memory, kernels,
collectives and messages. With an accelerator by name, or the cluster of a file, also what a
step of each takes there and what makes the difference.
)";
constexpr const char *kPlanText = R"(
Predicts time and memory of a training step before it is compiled: MODEL is a config.json,
an ONNX file, or a folder that holds one. The cluster is an accelerator by name, or a file.
)";
constexpr const char *kTraceText = R"(
Simulates a step of OUT, a program made by llmc compile, on an accelerator by name or on
the cluster of a file: every instruction of its plan in virtual time. Says what it takes
and what of it waits; -o FILE is a trace with the lanes and names of OUT --trace.
)";
constexpr const char *kReportText = R"(
Writes one HTML page about OUT, a program made by llmc compile, on an accelerator by name or
on the cluster of a file: what runs when, what fills memory, what ranks send each other and
why, and what a run measured. The page is one file that loads nothing.
)";
constexpr const char *kCalibrateText = R"(
Measures the kernels, library products, collectives and memory of this machine for some
minutes, and writes them as a cluster: `llmc compile --cluster FILE` and `llmc trace OUT
--cluster FILE` then predict what our programs take here. Keep the machine quiet.
)";
constexpr const char *kBudgetText = R"(
What a budget of compute buys by the scaling laws, and how long a training takes: give any
flags that determine the rest. FLOPs alone, or accelerators and days, or dollars: each law
chooses parameters and tokens. Either of these too: the other follows. FLOPs are 6 x params
x tokens. Numbers may be 70B, 2T (K, M, B or G, T) or 1e21. Flags that contradict each other
by more than 1 % are refused.
)";
constexpr const char *kVerifyText = R"(
Shows that the plan for a mesh equals its model on one rank: static checks of the
plan, the partitioned program in double precision, the plan with its kernels, five
steps of each optimizer; with --infer the outputs of one run (inputs are drawn: rows
of the tables that they index, positions, masks whose rows begin with ones, else
normal numbers). MODEL may be IR that llmc compile --compile-to wrote; its mesh and
choices are those it was written with. Exit 0: equal; 3: runs, but is not equal; 1:
refused.
)";

} // namespace

const support::FlagTable<CommandLine> &flagTable() {
  static const support::FlagTable<CommandLine> table = {
      meshFlags(),  batchFlags(),   choiceFlags(), expertFlags(), layoutFlags(),
      laterFlags(), clusterFlags(), priceFlags(), compileFlags(), verifyFlags(), budgetFlags(), pageFlags(), commonFlags(), programFlags()};
  return table;
}

const std::vector<Command> &commands() {
  static const std::vector<Command> list = {
      {"compile", kCompile, "compile MODEL -o OUT [options]", kCompileText,
       "compile MODEL -o OUT   one program that trains MODEL on every rank of a mesh, or\n"
       "                         with --infer one that runs it"},
      {"inspect", kInspect, "inspect MODEL|OUT [options]", kInspectText,
       "inspect MODEL|OUT      what is in a model or a compiled program"},
      {"explain", kExplain, "explain OUT [NAME] [--gpu NAME|--cluster FILE] [--json]", kExplainText,
       "explain OUT [NAME]     why a program's collectives, messages and cuts are there"},
      {"verify", kVerify, "verify MODEL --mesh ... [options]", kVerifyText,
       "verify MODEL           shows that a plan equals its model"},
      {"plan", kPlan, "plan MODEL --gpu NAME|--cluster FILE [options]", kPlanText,
       "plan MODEL             predicts time and memory of a training step"},
      {"trace", kTrace, "trace OUT --gpu NAME|--cluster FILE [-o FILE] [options]", kTraceText,
       "trace OUT              simulates a step of a compiled program: what runs when"},
      {"report", kReport, "report OUT --gpu NAME|--cluster FILE -o PAGE.html [options]", kReportText,
       "report OUT             writes a page: time, memory, communication of a step, and why"},
      {"calibrate", kCalibrate, "calibrate -o FILE [options]", kCalibrateText,
       "calibrate -o FILE      measures this machine, for --cluster FILE"},
      {"budget", kBudget, "budget --flops F|--params N|--tokens D|--gpu NAME ... [options]", kBudgetText,
       "budget                 what compute buys by the scaling laws, and how long it takes"},
      {"compare", kCompare, "compare OUT1 OUT2 [--gpu NAME|--cluster FILE] [--json]", kCompareText,
       "compare OUT1 OUT2      what differs between two programs, and what that costs"},
  };
  return list;
}

const Command *findCommand(std::string_view name) {
  for (const Command &command : commands())
    if (name == command.name)
      return &command;
  return nullptr;
}

std::string namesOf(unsigned modes) {
  std::string names;
  for (const Command &command : commands())
    if (command.bit & modes)
      names += (names.empty() ? "" : ", ") + std::string(command.name);
  return names;
}

std::string builtChoices() {
  std::string all;
  for (const support::Flag &flag : flagTable().flags())
    if (!flag.help && flag.rules.standard)
      all += text(all.empty() ? "" : ", ", flag.name + 2, " ", flag.rules.standard);
  return all;
}

std::string helpText(const std::string &name) {
  const Command *command = findCommand(name);
  std::string all = "usage: llmc ";
  if (!command || !command->bit) {
    all += "COMMAND ...\n\n";
    for (const Command &one : commands())
      if (one.bit)
        all += std::string("  ") + one.line + "\n";
    return all + "\n"
                  "llmc COMMAND --help tells more; llmc --version.\n";
  }
  return all + command->usage + "\n" + command->about + "\n" +
         flagsHelp(flagTable().flags(), command->bit);
}

} // namespace llmc

// Draws configurations from a counter-based generator, writes a config.json for each, and merges
// the reports of their verifications.
#include "lib/verify/Draws.h"

#include "lib/support/Counted.h"
#include "lib/support/OutputFile.h"
#include "lib/verify/subject/ProgressPhase.h"
#include "runtime/states/Random.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace llmc::verify {
using support::counted;
namespace {

struct Drawn {
  CompileOptions options;
  std::string config; // text of config.json
  std::string words;  // readable description, for the log
};

struct Sizes {
  int64_t heads, width, layers, words, positions, kvHeads, inner;
  bool tied;
};

// Returns the config.json of a family: 0 gpt2, 1 llama, 2 qwen3, 3 gemma2, 4 bert.
std::string configOf(int64_t family, const Sizes &s) {
  std::string config;
  llvm::raw_string_ostream text(config);
  const char *names[] = {"gpt2", "llama", "qwen3", "gemma2", "bert"};
  text << "{\"model_type\": \"" << names[family] << "\", \"initializer_range\": 0.2, \"vocab_size\": "
       << s.words << ", \"tie_word_embeddings\": " << (s.tied ? "true" : "false");
  if (family == 0) {
    text << ", \"architectures\": [\"GPT2LMHeadModel\"], \"activation_function\": \"gelu_new\", "
         << "\"layer_norm_epsilon\": 1e-05, \"n_embd\": " << s.width << ", \"n_head\": " << s.heads
         << ", \"n_layer\": " << s.layers << ", \"n_positions\": " << s.positions << "}\n";
    return config;
  }
  text << ", \"hidden_size\": " << s.width << ", \"num_hidden_layers\": " << s.layers
       << ", \"num_attention_heads\": " << s.heads << ", \"intermediate_size\": " << s.inner
       << ", \"max_position_embeddings\": " << s.positions;
  if (family == 4) {
    text << ", \"architectures\": [\"BertForMaskedLM\"], \"hidden_act\": \"gelu\", "
         << "\"layer_norm_eps\": 1e-12, \"type_vocab_size\": 2}\n";
    return config;
  }
  text << ", \"num_key_value_heads\": " << s.kvHeads << ", \"head_dim\": " << s.width / s.heads
       << ", \"rms_norm_eps\": 1e-06, \"rope_theta\": 10000.0";
  if (family == 3)
    text << ", \"architectures\": [\"Gemma2ForCausalLM\"], \"hidden_activation\": "
         << "\"gelu_pytorch_tanh\", \"sliding_window\": 4, \"query_pre_attn_scalar\": 8, "
         << "\"attn_logit_softcapping\": 50.0, \"final_logit_softcapping\": 30.0}\n";
  else
    text << ", \"architectures\": [\"" << (family == 1 ? "Llama" : "Qwen3") << "ForCausalLM\"], "
         << "\"hidden_act\": \"silu\"}\n";
  return config;
}

Drawn draw(uint64_t seed, uint32_t number, bool infer) {
  uint32_t counter = 0;
  auto pick = [&](std::initializer_list<int64_t> values) {
    auto bits = runtime::philox({counter++, number, 77, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
    return values.begin()[bits[0] % values.size()];
  };
  int64_t family = pick({0, 0, 1, 2, 3, 4});
  Sizes s;
  s.heads = pick({2, 4, 6}), s.width = s.heads * pick({4, 8}), s.layers = pick({1, 2, 3, 5});
  s.words = pick({31, 64, 101, 257}), s.positions = pick({16, 24}), s.tied = pick({1, 1, 0});
  s.kvHeads = s.heads / pick({1, 2, 2}), s.inner = pick({12, 24, 40});
  int64_t heads = s.heads, layers = s.layers;
  Drawn drawn;
  CompileOptions &o = drawn.options;
  o.sequence = pick({4, 8, 13, 16});
  o.dp = pick({1, 2, 3});
  o.pp = pick({1, 1, 2, 3});
  o.tp = pick({1, 2, 2, 4});
  // Make most draws fit the mesh; the compiler must refuse the others with a reason.
  if (pick({0, 1, 1, 1, 1, 1, 1, 1})) {
    o.pp = std::min(o.pp, layers + 1); // the last stage may have the head alone
    while (heads % o.tp != 0)
      o.tp /= 2;
  }
  o.microBatch = pick({1, 1, 2});
  o.globalBatch = o.batchRows() * pick({1, 2, 3, 5});
  const Schedule schedules[] = {Schedule::OneFOneB, Schedule::GPipe, Schedule::ZeroBubble, Schedule::Interleaved};
  o.schedule = schedules[pick({0, 1, 2, 3})];
  if (o.schedule == Schedule::Interleaved && (o.microBatches() % o.pp != 0 || 2 * o.pp > layers + 2))
    o.schedule = Schedule::ZeroBubble;
  if (o.pp == 1 && o.schedule != Schedule::GPipe)
    o.schedule = Schedule::OneFOneB;
  o.optimizer = pick({0, 1}) ? Optimizer::Sgd : Optimizer::AdamW;
  drawn.config = configOf(family, s);
  const char *names[] = {"learned positions", "rotary", "rotary, norms of heads",
                         "rotary, windows, softcaps", "encoder"};
  llvm::raw_string_ostream text(drawn.words);
  text << counted(layers, "layer") << " of " << counted(heads, "head") << ", " << names[family] << ", width " << s.width
       << ", " << s.words << " words" << (s.tied ? "" : " untied");
  if (family >= 1 && family <= 3)
    text << ", " << s.kvHeads << (s.kvHeads == 1 ? " kv head" : " kv heads");
  text << ", mesh " << o.dp << "x" << o.pp << "x" << o.tp << ", ";
  if (infer) {
    o.infer = true;
    o.dims["batch"] = o.globalBatch;
    text << counted(o.globalBatch, "row") << " of " << o.sequence;
    return drawn;
  }
  text << counted(o.microBatches(), "micro-batch") << " of " << counted(o.batchRows(), "row") << " of " << o.sequence
       << ", " << nameOf(o.scheduleKind()) << ", "
       << (o.optimizer == Optimizer::Sgd ? "sgd" : "adamw");
  return drawn;
}

// Merges `one` into `all`: keeps every failed check, and of each name the check with the largest
// value relative to its limit.
void merge(Report &all, const Report &one, const std::string &prefix) {
  auto share = [](const Check &c) {
    return !c.passed ? HUGE_VAL : c.limit > 0 ? c.value / c.limit : c.value;
  };
  for (Check check : one.checks) {
    check.subject = prefix + check.subject;
    auto found = llvm::find_if(all.checks, [&](const Check &c) { return c.name == check.name; });
    if (found == all.checks.end() || !check.passed)
      all.checks.push_back(check);
    else if (share(check) > share(*found))
      *found = check;
  }
}

// Verifies one draw and collects the diagnostics in `reason`. Fails only if the compiler refuses
// the draw: where it compiles but cannot be verified, the report holds a failed check.
FailureOr<Report> verifyDraw(MLIRContext &context, const VerifyOptions &options,
                             std::string &reason) {
  ScopedDiagnosticHandler quiet(&context, [&](Diagnostic &diagnostic) {
    if (reason.find(diagnostic.str()) == std::string::npos)
      reason += (reason.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  FailureOr<Report> report = verifyModel(context, options);
  if (succeeded(report) || failed(compileSubject(context, options.compile)))
    return report;
  report = Report();
  report->add("draws:verified", "", 1, 0, reason);
  return report;
}

} // namespace

FailureOr<Report> verifyDraws(MLIRContext &context, uint64_t seed, int64_t count, bool infer,
                              std::string &log, support::Progress *progress) {
  Report all;
  ProgressPhase doing(progress, "draws", static_cast<uint64_t>(count));
  llvm::SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("llmc-verify", folder))
    return emitError(UnknownLoc::get(&context)) << "cannot make a folder for drawn models";
  llvm::scope_exit removal([&] { llvm::sys::fs::remove_directories(folder); });
  all.refused = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i)
      doing.counter()();
    Drawn drawn = draw(seed, static_cast<uint32_t>(i), infer);
    llvm::SmallString<128> file(folder);
    llvm::sys::path::append(file, "config.json");
    support::Status status = support::writeFile(file.str().str(), drawn.config);
    if (!status)
      return emitError(UnknownLoc::get(&context)) << status.message();
    VerifyOptions options;
    options.compile = drawn.options;
    options.compile.model = file.str().str();
    options.seed = seed + i;
    std::string reason;
    FailureOr<Report> report = verifyDraw(context, options, reason);
    std::string place = "draw " + std::to_string(i + 1);
    log += place + ": " + drawn.words + ": ";
    if (failed(report)) {
      ++*all.refused;
      log += "refused: " + reason + "\n";
      continue;
    }
    auto failing = llvm::find_if(report->checks, [](const Check &c) { return !c.passed; });
    if (failing == report->checks.end())
      log += "equal\n";
    else if (report->border.empty())
      log += "FAILED " + failing->name + "\n";
    else
      log += "NOT equal, phase boundary " + report->border + " " + report->place + "\n";
    merge(all, *report, place + ": ");
    all.ranks = std::max(all.ranks, report->ranks);
    if (all.border.empty())
      all.border = report->border;
  }
  all.model = std::to_string(count) + " drawn models, seed " + std::to_string(seed);
  all.device = std::to_string(*all.refused) + " refused; the largest value of each check";
  return all;
}

} // namespace llmc::verify

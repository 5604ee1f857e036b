#include "lib/verify/Draws.h"

#include "runtime/Random.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace llmc::verify {
namespace {

struct Drawn {
  CompileOptions options;
  std::string config; // text of config.json
  std::string words;  // for people
};

Drawn draw(uint64_t seed, uint32_t number) {
  uint32_t counter = 0;
  auto pick = [&](std::initializer_list<int64_t> values) {
    auto bits = runtime::philox({counter++, number, 77, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
    return values.begin()[bits[0] % values.size()];
  };
  int64_t heads = pick({2, 4, 6}), width = heads * pick({4, 8}), layers = pick({1, 2, 3, 5});
  int64_t words = pick({31, 64, 101, 257}), positions = pick({16, 24}), tied = pick({1, 1, 0});
  Drawn drawn;
  CompileOptions &o = drawn.options;
  o.sequence = pick({4, 8, 13, 16});
  o.dp = pick({1, 2, 3});
  o.pp = pick({1, 1, 2, 3});
  o.tp = pick({1, 2, 2, 4});
  // Most draws fit; a few must be refused with a reason.
  if (pick({0, 1, 1, 1, 1, 1, 1, 1})) {
    o.pp = std::min(o.pp, layers);
    while (heads % o.tp != 0)
      o.tp /= 2;
  }
  o.microBatch = pick({1, 1, 2});
  o.globalBatch = o.batchRows() * pick({1, 2, 3, 5});
  o.schedule = pick({0, 1}) ? Schedule::GPipe : Schedule::OneFOneB;
  o.optimizer = pick({0, 1}) ? Optimizer::Sgd : Optimizer::AdamW;
  llvm::raw_string_ostream config(drawn.config), text(drawn.words);
  config << "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", "
         << "\"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-05, "
         << "\"initializer_range\": 0.2, \"n_embd\": " << width << ", \"n_head\": " << heads
         << ", \"n_layer\": " << layers << ", \"n_positions\": " << positions
         << ", \"vocab_size\": " << words
         << ", \"tie_word_embeddings\": " << (tied ? "true" : "false") << "}\n";
  text << layers << " layers of " << heads << " heads, width " << width << ", " << words << " words"
       << (tied ? "" : " untied") << ", mesh " << o.dp << "x" << o.pp << "x" << o.tp << ", "
       << o.microBatches() << " micro-batches of " << o.batchRows() << " rows of " << o.sequence
       << ", " << (o.schedule == Schedule::GPipe ? "gpipe" : "1f1b") << ", "
       << (o.optimizer == Optimizer::Sgd ? "sgd" : "adamw");
  return drawn;
}

// Keeps of each name the check that is nearest to its limit.
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

} // namespace

FailureOr<Report> verifyDraws(MLIRContext &context, uint64_t seed, int64_t count, std::string &log) {
  Report all;
  llvm::SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("llmc-verify", folder))
    return emitError(UnknownLoc::get(&context)) << "cannot make a folder for drawn models";
  int64_t refused = 0;
  for (int64_t i = 0; i < count; ++i) {
    Drawn drawn = draw(seed, static_cast<uint32_t>(i));
    llvm::SmallString<128> file(folder);
    llvm::sys::path::append(file, "config.json");
    std::error_code error;
    llvm::raw_fd_ostream(file, error) << drawn.config;
    if (error)
      return emitError(UnknownLoc::get(&context)) << file.str().str() << ": " << error.message();
    VerifyOptions options;
    options.compile = drawn.options;
    options.compile.model = file.str().str();
    options.seed = seed + i;
    std::string reason;
    FailureOr<Report> report = failure();
    {
      ScopedDiagnosticHandler quiet(&context, [&](Diagnostic &diagnostic) {
        if (reason.find(diagnostic.str()) == std::string::npos)
          reason += (reason.empty() ? "" : "; ") + diagnostic.str();
        return success();
      });
      report = verifyModel(context, options);
    }
    std::string place = "draw " + std::to_string(i + 1);
    log += place + ": " + drawn.words + ": ";
    if (failed(report)) {
      ++refused;
      log += "refused: " + reason + "\n";
      continue;
    }
    log += report->passed() ? "equal\n"
                            : "NOT equal, border " + report->border + " " + report->place + "\n";
    merge(all, *report, place + ": ");
    all.ranks = std::max(all.ranks, report->ranks);
    if (all.border.empty())
      all.border = report->border;
  }
  llvm::sys::fs::remove_directories(folder);
  all.model = std::to_string(count) + " drawn models, seed " + std::to_string(seed);
  all.device = std::to_string(refused) + " refused; the largest value of each check";
  return all;
}

} // namespace llmc::verify

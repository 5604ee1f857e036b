// Hashes every state and output after each step of a run and compares the hashes of two runs.
#include "lib/verify/Interleavings.h"

#include "lib/support/Hash.h"
#include "lib/verify/subject/RunPlan.h"
#include "runtime/cpu/Adversary.h"

#include <algorithm>

namespace llmc::verify {

using planfile::BufferRefT;
using runtime::Executor;
using support::text;

namespace {

constexpr size_t kSteps = 2; // The second step starts from what the first left behind.

struct Run {
  std::vector<uint64_t> hashes; // of each state, output and result, by step and rank
  std::string failure;          // message of the executor; empty if the run ended
  bool hazard = false;
};

// Calls visit(rank, kind, tensor name, buffer) for each state, output and result, in a fixed
// order.
template <class F> void forEachResult(const Executor &executor, F visit) {
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank) {
    const auto &stage = *executor.program().stages[executor.stageOfRank(rank)];
    for (const auto &state : stage.states)
      visit(rank, toString(state->role), state->name, *state->buffer);
    for (const auto &output : stage.outputs)
      visit(rank, "output", output->name, *output->buffer);
    for (const auto &result : stage.results)
      visit(rank, "result", result->name, *result->buffer);
  }
}

class Runner {
public:
  Runner(const planfile::ProgramT &program, const runtime::Kernels &kernels, const Trial &trial)
      : program(program), kernels(kernels), trial(trial) {}

  support::Status prepare() {
    for (size_t step = 0; step < std::min(kSteps, trial.steps.size()); ++step) {
      auto packed = packInputs(program, trial.steps[step]);
      if (!packed)
        return packed.takeError();
      inputs.push_back(std::move(*packed));
    }
    return support::ok();
  }

  Run run(std::optional<uint64_t> seed) {
    Run result;
    runtime::ExecutorOptions options;
    options.interleaving = seed;
    options.threadsPerRank = 1;
    auto made = Executor::create(program, kernels, options);
    if (!made) {
      result.failure = made.message();
      return result;
    }
    Executor &executor = **made;
    fillWeights(executor, trial.weights);
    for (size_t step = 0; step < inputs.size(); ++step) {
      writeScalars(executor, trial.steps[step].scalars);
      std::vector<const std::byte *> batch;
      for (const auto &bytes : inputs[step])
        batch.push_back(bytes.data());
      if (support::Status status = executor.runStep(batch); !status) {
        result.failure = text("step ", step + 1, ": ", status.message());
        result.hazard = executor.hazard() != nullptr;
        return result;
      }
      forEachResult(executor, [&](uint32_t rank, auto, const std::string &, const BufferRefT &at) {
        result.hashes.push_back(support::hash64(executor.arena(rank) + at.offset, at.size));
      });
    }
    return result;
  }

  // Names the first tensor whose hash differs between two runs.
  std::string difference(const Run &a, const Run &b) {
    size_t at = static_cast<size_t>(
        std::mismatch(a.hashes.begin(), a.hashes.end(), b.hashes.begin()).first - a.hashes.begin());
    auto made = Executor::create(program, kernels, {});
    if (!made)
      return made.message();
    std::vector<std::string> names;
    forEachResult(**made,
                  [&](uint32_t rank, auto kind, const std::string &name, const BufferRefT &) {
                    names.push_back(text(kind, " '", name, "' on rank ", rank));
                  });
    return text("other bits after step ", at / names.size() + 1, " in ", names[at % names.size()]);
  }

private:
  const planfile::ProgramT &program;
  const runtime::Kernels &kernels;
  const Trial &trial;
  std::vector<std::vector<std::vector<std::byte>>> inputs; // by step and input
};

} // namespace

void checkInterleavings(const planfile::ProgramT &program, const runtime::Kernels &kernels,
                        const Trial &trial, unsigned count, uint64_t seed, Report &report,
                        const std::function<void()> &ranOne) {
  std::string subject = text(count, " orders from seed ", seed), bitsNote, poisonNote;
  Runner runner(program, kernels, trial);
  if (support::Status status = runner.prepare(); !status) {
    report.add("interleave:bits", subject, 1, 0, status.message());
    return;
  }
  Run inOrder = runner.run(std::nullopt);
  if (!inOrder.failure.empty()) {
    report.add("interleave:bits", subject, 1, 0, "in order: " + inOrder.failure);
    return;
  }
  unsigned bits = 0, poison = 0;
  for (unsigned i = 0; i < count; ++i) {
    Run run = runner.run(seed + i);
    ranOne();
    if (run.failure.empty() && run.hashes == inOrder.hashes)
      continue;
    std::string &note = run.hazard ? poisonNote : bitsNote;
    if (++(run.hazard ? poison : bits) == 1)
      note = text("seed ", seed + i, ": ",
                  run.failure.empty() ? runner.difference(inOrder, run) : run.failure);
  }
  report.add("interleave:bits", subject, bits, 0, bitsNote);
  report.add("interleave:poison", subject, poison, 0, poisonNote);
}

} // namespace llmc::verify

#include "runtime/Session.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;
using planfile::ProgramT;

support::Result<Weights> runtime::openWeights(const ProgramT &program, const Options &options,
                                              const RunContext &context) {
  return Weights::open(program, {options.weights, options.seed, context.folder});
}

support::Result<std::unique_ptr<Executor>>
runtime::makeExecutor(const ProgramT &program, const Kernels &kernels, const Options &options) {
  ExecutorOptions how;
  how.workers = options.workers;
  how.threadsPerRank = options.threads;
  how.useLibrary = options.library;
  how.isolate = options.isolateArenas;
  how.profile = options.profile;
  how.interleaving = options.interleaving;
  return Executor::create(program, kernels, how);
}

std::string runtime::grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

void runtime::announceModel(std::ostream &out, const Executor &executor) {
  const ProgramT &program = executor.program();
  const planfile::ModelInfoT &model = *program.model;
  out << "model      " << (model.name.empty() ? model.source_path : model.name) << ", "
      << grouped(model.parameters) << " parameters, " << model.layers << " layers";
  if (model.sequence > 0)
    out << ", sequence " << model.sequence;
  if (model.vocabulary > 0)
    out << ", vocabulary " << model.vocabulary;
  out << "\nmesh      ";
  for (const auto &axis : program.mesh->axes)
    out << " " << axis->name << "=" << axis->size;
  out << ": " << executor.ranks() << (executor.ranks() == 1 ? " rank on " : " ranks on ")
      << executor.workers() << (executor.workers() == 1 ? " thread" : " threads")
      << ", each with " << executor.threadsPerRank() << " for its kernels\n";
}

void runtime::announceMemory(std::ostream &out, const Executor &executor, const Weights &weights) {
  uint64_t arenas = 0;
  for (const auto &stage : executor.program().stages)
    arenas = std::max(arenas, stage->arena_bytes);
  out << "memory     " << grouped(arenas) << " bytes in the largest arena, "
      << grouped(availableMemory()) << " free\n";
  out << "weights    " << weights.note() << "\n";
  if (const std::string &note = executor.program().model->weights_note; !note.empty())
    out << "           " << note << "\n";
}

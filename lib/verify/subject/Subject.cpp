// Runs the phases of the pipeline one by one, keeping a clone of the module after each.
#include "lib/verify/subject/Subject.h"

#include "lib/pipeline/Pipeline.h"
#include "passes/6-emit/Emit.h"
#include "runtime/compute/Cpu.h"

using namespace mlir;

namespace llmc::verify {

ModuleOp Subject::at(Phase phase) const {
  auto found = borders.find(phase);
  return found == borders.end() ? ModuleOp() : *const_cast<OwningOpRef<ModuleOp> &>(found->second);
}

LogicalResult compileFrom(ModuleOp module, Phase from, Phase upTo, Subject &subject,
                          Phase *failedIn) {
  CompileOptions quiet = subject.options;
  quiet.dumpFolder.clear();
  OwningOpRef<ModuleOp> work = module.clone();
  subject.borders[from] = module.clone();
  for (int i = static_cast<int>(from) + 1; i <= static_cast<int>(upTo); ++i) {
    Phase phase = static_cast<Phase>(i);
    if (failedIn)
      *failedIn = phase;
    if (failed(runPhases(*work, quiet, static_cast<Phase>(i - 1), phase)))
      return failure();
    if (phase != Phase::Emit)
      subject.borders[phase] = work->clone();
  }
  if (upTo != Phase::Emit)
    return success();
  subject.program = std::make_unique<planfile::ProgramT>();
  auto cpu = runtime::chooseCpu(runtime::readCpuFeatures(), "");
  if (!cpu)
    return work->emitError() << cpu.message();
  std::vector<KernelObject> objects;
  if (failed(emitProgram(*work, *subject.program, objects, *cpu)))
    return failure();
  auto kernels = runtime::Kernels::load(objects.front().bytes, *subject.program);
  if (!kernels)
    return work->emitError() << kernels.message();
  subject.kernels = std::move(*kernels);
  subject.emitted = std::move(work);
  return success();
}

FailureOr<Subject> compileSubject(MLIRContext &context, const CompileOptions &options, Phase upTo,
                                  ModelReplacement modelReplacement) {
  Subject subject;
  subject.options = options;
  Phase border = modelReplacement ? modelReplacement.border : Phase::Import;
  OwningOpRef<ModuleOp> module =
      modelReplacement ? OwningOpRef<ModuleOp>(modelReplacement.module.clone()) : readModel(context, options);
  if (module && !modelReplacement && options.afterPhase)
    options.afterPhase(Phase::Import, *module);
  if (!module)
    return failure();
  // A step without room for all rows is run again by a plan that has it, and that one is proved.
  subject.options.roomForAll = true;
  if (border < Phase::Raise && upTo > Phase::Raise) {
    if (failed(compileFrom(*module, border, Phase::Raise, subject)))
      return failure();
    border = Phase::Raise;
    module = subject.at(border).clone();
  }
  subject.options.countsLost = border == Phase::Raise && mayLackRoom(*module, options);
  if (failed(compileFrom(*module, border, upTo, subject)))
    return failure();
  return subject;
}

CompileOptions oneRank(const CompileOptions &options) {
  CompileOptions one = options;
  if (!options.infer) { // An inference has the model's own batch.
    one.microBatch = options.batchRows();
    one.globalBatch = options.globalRows();
  }
  static_cast<planfile::MeshSizes &>(one) = {};
  one.schedule.reset(); // a pipeline of one stage divides nothing
  one.virtualStages.reset();
  one.stages.clear();
  one.moeBudget = 0; // no row leaves it
  // A limit is for the ranks of a mesh: one rank keeps all.
  one.memoryLimit = 0;
  if (one.recompute == Recompute::Auto)
    one.recompute = Recompute::None;
  return one;
}

} // namespace llmc::verify

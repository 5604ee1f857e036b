// Compiles a model for all ranks and for one, and mutates the plan for all ranks.
#include "lib/pipeline/Pipeline.h"
#include "lib/verify/mutation/Mutation.h"
#include "lib/verify/subject/Subject.h"

using namespace mlir;

namespace llmc::verify {

FailureOr<nlohmann::json> mutateModel(MLIRContext &context, const CompileOptions &compile,
                                      uint64_t seed, const MutationOptions &options) {
  FailureOr<Subject> subject = compileSubject(context, compile);
  if (failed(subject))
    return failure();
  // Mutates what users run: of a mixture the plan whose ranks may lack room for rows, if there is one.
  if (ModuleOp raised = subject->at(Phase::Raise); raised && mayLackRoom(raised, compile)) {
    Subject own;
    own.options = compile;
    if (failed(compileFrom(raised, Phase::Raise, Phase::Emit, own)))
      return failure();
    *subject = std::move(own);
  }
  FailureOr<Subject> one = compileSubject(context, oneRank(compile));
  if (failed(one))
    return failure();
  ModuleOp module = one->at(Phase::Train);
  support::Result<Trial> trial = drawTrial(*one, seed, 2);
  if (!trial)
    return module.emitError() << trial.message();
  auto mutants = mutate(*subject->program, *subject->kernels, *trial, options);
  if (!mutants)
    return module.emitError() << mutants.message();
  return std::move(*mutants);
}

} // namespace llmc::verify

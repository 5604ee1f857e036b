#include "tools/llmc/RetryPlan.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/planfile/Device.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {

using namespace mlir;

RetryCompilation::RetryCompilation(ModuleOp raised, const CompileOptions &first, support::Progress &progress)
    : options(optionsForRetry(first)), progress(progress) {
  options.progress = nullptr; // Phases of the first plan are shown.
  llvm::raw_string_ostream stream(model);
  if (failed(writeBytecodeToFile(raised, stream)))
    return; // wait() says why the copy cannot be read.
  running = std::async(std::launch::async, [this] { return compileAlone(); });
}

RetryCompilation::~RetryCompilation() { isWanted = false; }

std::optional<RetryPlan> RetryCompilation::compileAlone() const {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext own(registry, MLIRContext::Threading::DISABLED);
  own.loadAllAvailableDialects();
  ScopedDiagnosticHandler quiet(&own, [](Diagnostic &) { return success(); });
  return compile(own);
}

std::optional<RetryPlan> RetryCompilation::compile(MLIRContext &context) const {
  auto module = parseSourceString<ModuleOp>(model, ParserConfig(&context));
  if (!module)
    return std::nullopt;
  for (Phase phase = Phase::Raise; phase != Phase::Emit;) {
    Phase next = static_cast<Phase>(static_cast<int>(phase) + 1);
    if (!isWanted || failed(runPhases(*module, options, phase, next)))
      return std::nullopt;
    phase = next;
  }
  std::optional<RetryPlan> made(std::in_place);
  if (!isWanted || failed(emitProgram(*module, made->program, made->kernels)))
    return std::nullopt;
  planfile::reserveScratch(made->program, {});
  made->findings = planfile::checkAll(made->program);
  return made;
}

RetryPlan *RetryCompilation::wait(MLIRContext &context) {
  support::Progress::Phase step(progress, "plan for retries");
  if (running.valid())
    plan = running.get();
  if (!plan)
    plan = compile(context);
  return plan ? &*plan : nullptr;
}

} // namespace llmc

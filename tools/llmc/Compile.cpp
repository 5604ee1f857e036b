// llmc compile: model -> plan + kernels -> one executable.
#include "tools/llmc/Commands.h"
#include "tools/llmc/Diagnostics.h"
#include "tools/llmc/Flags.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/cuda/CudaProgram.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <filesystem>

namespace llmc {
using namespace mlir;
namespace {

int fail(const std::string &message) {
  llvm::errs() << "llmc: error: " << message << "\n";
  return 1;
}

// The runtime that a payload is appended to stands beside llmc itself.
std::string runtimePath() {
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<256> path(llvm::sys::path::parent_path(self));
  llvm::sys::path::append(path, "llmc-rt");
  return path.str().str();
}

// A long compilation must not end in "cannot write".
std::string checkWritable(const std::string &output) {
  namespace fs = std::filesystem;
  fs::path path(output), folder = path.parent_path().empty() ? "." : path.parent_path();
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return output + ": cannot be written: folder " + folder.string() + " does not exist";
  if (fs::is_directory(path, error))
    return output + ": cannot be written: it is a folder; name a file with -o";
  if (llvm::sys::fs::access(folder.string(), llvm::sys::fs::AccessMode::Write))
    return output + ": cannot be written: no permission in folder " + folder.string();
  return {};
}

int writeIr(ModuleOp module, const std::string &output) {
  std::error_code error;
  llvm::raw_fd_ostream out(output, error);
  if (error)
    return fail(output + ": cannot be written: " + error.message());
  module.print(out, OpPrintingFlags().enableDebugInfo());
  return 0;
}

std::string humanBytes(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = bytes;
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

void printInference(const planfile::ProgramT &program) {
  size_t outputs = 0;
  for (const auto &stage : program.stages)
    outputs += stage->results.size();
  llvm::outs() << "run         " << program.global_batch
               << (program.global_batch == 1 ? " row, " : " rows, ") << program.inputs.size()
               << (program.inputs.size() == 1 ? " input, " : " inputs, ") << outputs
               << (outputs == 1 ? " output\n" : " outputs\n");
}

void printDeviceKernels(const std::vector<planfile::DeviceImageT> &images) {
  for (const planfile::DeviceImageT &image : images)
    llvm::outs() << "cuda        " << image.chip << ": " << image.kernels.size() << " kernels, "
                 << humanBytes(image.cubin.size()) << ", assembled by " << image.assembler
                 << ", never run; " << image.refusals.size() << " not emitted\n";
}

void printSummary(const planfile::ProgramT &program, const CompileOptions &options,
                  double seconds) {
  llvm::raw_ostream &out = llvm::outs();
  out << options.model << ": " << program.model->parameters << " parameters, "
      << program.model->layers << " layers\n"
      << "mesh        dp " << options.dp << " x pp " << options.pp << " x tp " << options.tp
      << " = " << options.ranks() << " ranks\n";
  if (program.mode == planfile::Mode::Infer)
    printInference(program);
  else
    out << "step        " << program.global_batch << " rows of " << program.model->sequence
        << " tokens = " << program.micro_batches << " micro-batches of " << program.micro_batch
        << " rows per data-parallel rank, " << program.schedule << ", "
        << (options.optimizer == Optimizer::AdamW ? "adamw" : "sgd") << "\n";
  out << "choices     " << builtChoices() << ", tie " << nameOf(options.tie) << ", raise "
      << (options.raise ? "on" : "off") << "\n";
  for (auto [i, stage] : llvm::enumerate(program.stages)) {
    out << "stage " << i << "     ";
    const planfile::ChunkT &chunk = *stage->chunks.front();
    uint32_t slots = stage->pools.front()->slots;
    if (chunk.last_layer >= chunk.first_layer)
      out << "layers " << chunk.first_layer << ".." << chunk.last_layer << ", ";
    out << slots << " slot" << (slots == 1 ? "" : "s") << ", arena "
        << humanBytes(stage->arena_bytes) << " a rank\n";
  }
  std::error_code error;
  uint64_t size = std::filesystem::file_size(options.output, error);
  out << options.output << ": " << humanBytes(size) << ", " << program.kernels.size()
      << " kernels, compiled in " << llvm::format("%.1f", seconds) << " s\n";
}

} // namespace

int runCompile(const CommandLine &line) {
  auto start = std::chrono::steady_clock::now();
  const CompileOptions &options = line.options;
  if (std::string problem = checkWritable(options.output); !problem.empty())
    return fail(problem);
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  TerminalDiagnostics diagnostics(&context, options.model);
  OwningOpRef<ModuleOp> module = readModel(context, options);
  if (!module || failed(runPhases(*module, options, line.compileFrom.value_or(Phase::Import), line.compileTo)))
    return 1;
  if (line.compileTo != Phase::Emit)
    return writeIr(*module, options.output);

  planfile::ProgramT program;
  std::vector<KernelObject> kernels;
  if (failed(emitProgram(*module, program, kernels)))
    return 1;
  program.compiler = std::string("llmc ") + LLMC_VERSION;
  std::vector<planfile::DeviceImageT> images;
  if (!options.cudaKernels.empty() &&
      failed(emitCudaKernels(*module, program, options.cudaKernels, images)))
    return 1;
  planfile::reserveScratch(program, images);
  for (unsigned i = 0; i < program.stages.size(); ++i)
    program.stages[i]->live_bytes = planfile::peakLiveBytes(program, i);
  auto findings = planfile::checkAll(program);
  if (!findings.empty())
    return fail("the plan is not valid, which is a bug of llmc:\n" +
                planfile::formatFindings(findings));
  std::string plan = planfile::writeProgram(program);
  std::vector<planfile::Section> sections = {{std::string(planfile::kPlanSection), plan}};
  for (const KernelObject &object : kernels)
    sections.push_back({std::string(planfile::kKernelsPrefix) + object.target, object.bytes});
  std::vector<std::string> deviceBytes(images.size()); // sections only point to theirs
  for (auto [image, bytes] : llvm::zip(images, deviceBytes)) {
    bytes = planfile::writeDeviceImage(image);
    sections.push_back({std::string(planfile::kCudaPrefix) + image.chip, bytes});
  }
  if (auto status = planfile::writePayload(runtimePath(), sections, options.output); !status)
    return fail(status.message());
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  printSummary(program, options, seconds.count());
  printDeviceKernels(images);
  return 0;
}

} // namespace llmc

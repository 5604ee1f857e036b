#include "lib/verify/Dump.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"
#include "lib/pipeline/Pipeline.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace llmc::verify {

// A model may be written as IR too; only a run of the compiler leaves its options there.
bool isDump(const std::string &path) {
  if (!llvm::StringRef(path).ends_with(".mlir"))
    return false;
  auto file = llvm::MemoryBuffer::getFile(path);
  return !file || (*file)->getBuffer().contains("plan.options") ||
         !(*file)->getBuffer().contains("graph.mode");
}

// What each border has that the ones before it have not. Text serves when the
// parser or a verifier refuses the module.
static std::optional<Phase> phaseOf(llvm::StringRef text) {
  if (text.contains("plan.stage "))
    return Phase::Schedule;
  if (text.contains("func.func @forward_0"))
    return Phase::Partition;
  if (text.contains("parallel.in = "))
    return Phase::Shard;
  if (text.contains("func.func @micro"))
    return Phase::Train;
  if (text.contains("func.func @forward"))
    return Phase::Raise;
  return std::nullopt;
}

static LogicalResult readOptions(ModuleOp module, CompileOptions &options) {
  auto mesh = parallel::getMesh(module);
  auto stored = module->getAttrOfType<DictionaryAttr>("plan.options");
  auto model = module->getAttrOfType<DictionaryAttr>("graph.model");
  if (!mesh || !stored || !model || !model.getAs<StringAttr>("source_path"))
    return module.emitError("is no dump: it lacks parallel.mesh, plan.options or graph.model");
  auto number = [](DictionaryAttr from, StringRef key, int64_t otherwise) {
    auto value = from.getAs<IntegerAttr>(key);
    return value ? value.getInt() : otherwise;
  };
  auto text = [](DictionaryAttr from, StringRef key) {
    auto value = from.getAs<StringAttr>(key);
    return value ? value.str() : std::string();
  };
  options.model = text(model, "source_path");
  for (planfile::AxisRole role : planfile::kAxisRoles)
    options.of(role) = mesh.getSize(role);
  options.edp = 0; // it follows from the others
  options.infer = parallel::isInference(module);
  options.sequence = number(model, "sequence", 0);
  options.microBatch = number(stored, "micro_batch", 1);
  options.globalBatch = number(stored, "global_batch", 0);
  options.schedule = text(stored, "schedule") == "gpipe" ? Schedule::GPipe : Schedule::OneFOneB;
  options.optimizer = text(stored, "optimizer") == "sgd" ? Optimizer::Sgd : Optimizer::AdamW;
  for (Tie tie : {Tie::Auto, Tie::Off, Tie::Exact})
    if (text(stored, "tie") == nameOf(tie))
      options.tie = tie;
  options.raise = text(stored, "raise") != "off";
  options.weights = text(stored, "weights");
  if (auto dims = stored.getAs<DictionaryAttr>("dims"))
    for (NamedAttribute dim : dims)
      if (auto size = dyn_cast<IntegerAttr>(dim.getValue()))
        options.dims[dim.getName().str()] = size.getInt();
  return success();
}

FailureOr<Dump> readDump(MLIRContext &context, const std::string &path) {
  Location loc = UnknownLoc::get(&context);
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return emitError(loc) << path << ": " << file.getError().message();
  std::optional<Phase> phase = phaseOf((*file)->getBuffer());
  if (!phase)
    return emitError(loc) << path << ": holds none of @forward, @micro, @forward_0 or plan.stage, "
                             "so that it is no dump";
  Dump dump;
  dump.phase = *phase;
  CompileOptions read;
  read.model = path;
  dump.module = readModel(context, read);
  if (!dump.module)
    return emitError(loc) << path << ": is not valid at border " << std::string(toString(*phase));
  if (failed(readOptions(*dump.module, dump.options)))
    return failure();
  return dump;
}

} // namespace llmc::verify

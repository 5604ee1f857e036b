// Compiles kernels one by one, and links them to a shared object, with lld as a library.
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/object/KernelCache.h"
#include "passes/6-emit/object/Lower.h"

#include "lib/support/OutputFile.h"
#include "lld/Common/Driver.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace mlir;

namespace llmc::emit {

// Writes the objects to a temporary folder and removes it after: lld reads and writes only files.
FailureOr<std::string> linkShared(ModuleOp kernels, ArrayRef<std::string> objects) {
  llvm::SmallString<128> folder;
  if (auto error = llvm::sys::fs::createUniqueDirectory("llmc-link", folder))
    return kernels.emitError("no temporary folder: ") << error.message();
  auto path = [&](const llvm::Twine &name) {
    llvm::SmallString<128> file(folder);
    llvm::sys::path::append(file, name);
    return file.str().str();
  };
  std::string output = path("kernels.so");
  std::vector<std::string> inputs;
  for (const std::string &object : objects) {
    inputs.push_back(path(llvm::Twine(inputs.size()) + ".o"));
    if (support::Status status = support::writeFile(inputs.back(), object); !status) {
      llvm::sys::fs::remove_directories(folder);
      return kernels.emitError("kernels cannot be linked: ") << status.message();
    }
  }
  std::string messages;
  llvm::raw_string_ostream diagnostics(messages);
  // With -z defs an undefined symbol is an error here and not at run time.
  SmallVector<const char *> arguments = {"ld.lld", "-shared", "-z", "defs", "--hash-style=gnu",
                                         "--build-id=none", "--threads=1", "-o", output.c_str()};
  for (const std::string &input : inputs)
    arguments.push_back(input.c_str());
  lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  static std::mutex one; // lld keeps what it links in globals
  std::lock_guard<std::mutex> lock(one);
  lld::Result result = lld::lldMain(arguments, diagnostics, diagnostics, drivers);
  std::string bytes;
  if (result.retCode == 0)
    if (auto file = llvm::MemoryBuffer::getFile(output, /*IsText=*/false, /*NullTerminator=*/false))
      bytes = (*file)->getBuffer().str();
  llvm::sys::fs::remove_directories(folder);
  if (bytes.empty())
    return kernels.emitError("kernels cannot be linked: ") << messages;
  return bytes;
}

// Copies one kernel, with the constants that it reads, to a module of its own, or none to an empty one.
static OwningOpRef<ModuleOp> extract(Location loc, func::FuncOp kernel, const SymbolTable &symbols) {
  OwningOpRef<ModuleOp> own(ModuleOp::create(loc));
  if (!kernel)
    return own;
  OpBuilder builder = OpBuilder::atBlockEnd(own->getBody());
  llvm::SetVector<Operation *> constants;
  kernel.walk([&](LLVM::AddressOfOp address) { constants.insert(symbols.lookup(address.getGlobalName())); });
  for (Operation *constant : constants)
    builder.clone(*constant);
  builder.clone(*kernel);
  return own;
}

FailureOr<std::string> makeSharedObject(ModuleOp kernels, const KernelTarget &target) {
  CpuTarget cpu = cpuOf(target);
  KernelCache cache = KernelCache::fromEnvironment();
  SymbolTable symbols(kernels);
  std::vector<std::string> objects;
  SmallVector<func::FuncOp> parts(kernels.getOps<func::FuncOp>());
  if (parts.empty())
    parts.push_back({}); // a plan that computes nothing has an object, too
  for (func::FuncOp kernel : parts) {
    OwningOpRef<ModuleOp> own = extract(kernels.getLoc(), kernel, symbols);
    std::string key = cache.keyOf(*own, cpu);
    if (std::optional<std::string> kept = cache.find(key)) {
      objects.push_back(std::move(*kept));
      continue;
    }
    if (failed(lowerToLLVMDialect(*own)))
      return failure();
    auto object = makeObject(*own, cpu);
    if (failed(object))
      return failure();
    cache.keep(key, *object);
    objects.push_back(std::move(*object));
  }
  return linkShared(kernels, objects);
}

} // namespace llmc::emit

namespace llmc {

LogicalResult emitProgram(ModuleOp module, planfile::ProgramT &program,
                          std::vector<KernelObject> &kernels, StringRef only) {
  for (const emit::KernelTarget *target : emit::kCpuTargets) {
    if (!only.empty() && only != target->name)
      continue;
    auto nested = module.lookupSymbol<ModuleOp>(emit::kernelsModule(*target));
    if (!nested)
      continue;
    auto object = emit::makeSharedObject(nested, *target);
    if (failed(object))
      return failure();
    kernels.push_back({target->name.str(), std::move(*object)});
  }
  if (kernels.empty())
    return module.emitError("has no kernels: phase emit comes before the plan file");
  return emit::writePlan(module, program);
}

} // namespace llmc

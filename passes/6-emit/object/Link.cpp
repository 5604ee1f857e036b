// Links an object to a shared object, with lld as a library.
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/object/Lower.h"

#include "lib/support/OutputFile.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace mlir;

namespace llmc::emit {

// Writes the object to a temporary folder and removes it after: lld reads and writes only files.
FailureOr<std::string> linkShared(ModuleOp kernels, StringRef object) {
  llvm::SmallString<128> folder;
  if (auto error = llvm::sys::fs::createUniqueDirectory("llmc-link", folder))
    return kernels.emitError("no temporary folder: ") << error.message();
  auto path = [&](StringRef name) {
    llvm::SmallString<128> file(folder);
    llvm::sys::path::append(file, name);
    return file.str().str();
  };
  std::string input = path("kernels.o"), output = path("kernels.so");
  if (support::Status status = support::writeFile(input, {object.data(), object.size()}); !status) {
    llvm::sys::fs::remove_directories(folder);
    return kernels.emitError("kernels cannot be linked: ") << status.message();
  }
  std::string messages;
  llvm::raw_string_ostream diagnostics(messages);
  // With -z defs an undefined symbol is an error here and not at run time.
  const char *arguments[] = {"ld.lld",           "-shared",         "-z",          "defs",
                             "--hash-style=gnu", "--build-id=none", "--threads=1", "-o",
                             output.c_str(),     input.c_str()};
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

FailureOr<std::string> makeSharedObject(ModuleOp kernels, const KernelTarget &target) {
  OwningOpRef<ModuleOp> copy(kernels.clone());
  if (failed(lowerToLLVMDialect(*copy)))
    return failure();
  auto object = makeObject(*copy, cpuOf(target));
  if (failed(object))
    return failure();
  return linkShared(kernels, *object);
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

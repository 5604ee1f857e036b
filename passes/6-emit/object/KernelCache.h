// Keeps compiled kernels between runs of the compiler, so that a program which differs from an
// earlier one in few kernels compiles only those. Test: test/passes/6-emit/KernelCacheTest.cpp.
#ifndef LLMC_PASSES_EMIT_OBJECT_KERNELCACHE_H
#define LLMC_PASSES_EMIT_OBJECT_KERNELCACHE_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/6-emit/object/Lower.h"
#include <optional>
#include <string>

namespace llmc::emit {

// Holds objects in a folder, one a file, by a hash of all that decides their bytes: the code, the
// processor, and the versions of LLVM and of this compiler. What is found there is checked: a file
// that is damaged, or of another key, is as one that is missing. A folder that cannot be written
// keeps nothing, and is no error.
class KernelCache {
public:
  // Finds and keeps nothing without a folder.
  explicit KernelCache(std::string folder) : folder(std::move(folder)) {}
  // Takes the folder of the environment variable LLMC_KERNEL_CACHE.
  static KernelCache fromEnvironment();

  // Returns the key of a module of kernels in the form of Kernel.h; empty without a folder.
  std::string keyOf(mlir::ModuleOp kernel, const CpuTarget &cpu) const;
  std::optional<std::string> find(const std::string &key) const;
  void keep(const std::string &key, const std::string &object) const;

private:
  std::string fileOf(const std::string &key) const;
  std::string folder;
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_OBJECT_KERNELCACHE_H

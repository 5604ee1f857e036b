// Keeps objects by the SHA-256 of what they are made from; LLVM's own cache pruning bounds the folder.
#include "passes/6-emit/object/KernelCache.h"

#include "lib/support/File.h"
#include "lib/support/OutputFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace mlir;

namespace llmc::emit {
namespace {

std::string sha256(StringRef text) {
  return llvm::toStringRef(llvm::SHA256::hash(llvm::arrayRefFromStringRef(text))).str();
}

// Tells one build of a program or library from another.
std::string stampOf(const llvm::Twine &path) {
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status))
    return "none";
  return (llvm::Twine(status.getSize()) + "@" +
          llvm::Twine(status.getLastModificationTime().time_since_epoch().count())).str();
}

// Identifies this compiler and the LLVM that it runs with.
const std::string &compiler() {
  static const std::string stamp = [] {
    Dl_info library{};
    auto *known = reinterpret_cast<void *>(&llvm::SHA256::hash);
    bool found = dladdr(known, &library) && library.dli_fname;
    return stampOf("/proc/self/exe") + " LLVM " LLVM_VERSION_STRING " " +
           (found ? stampOf(library.dli_fname) : std::string());
  }();
  return stamp;
}

} // namespace

KernelCache KernelCache::fromEnvironment() {
  const char *folder = std::getenv("LLMC_KERNEL_CACHE");
  return KernelCache(folder ? folder : "");
}

std::string KernelCache::keyOf(ModuleOp kernel, const CpuTarget &cpu) const {
  if (folder.empty())
    return "";
  std::string text;
  llvm::raw_string_ostream(text) << compiler() << '\n' << cpu.name << ' ' << cpu.features << '\n' << kernel;
  return llvm::toHex(sha256(text), /*LowerCase=*/true);
}

// Gives files the prefix by which pruneCache knows its own.
std::string KernelCache::fileOf(const std::string &key) const {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "llvmcache-" + key);
  return path.str().str();
}

// A file is the hash of key and object, and then the object.
std::optional<std::string> KernelCache::find(const std::string &key) const {
  if (key.empty() || !llvm::sys::fs::exists(fileOf(key)))
    return std::nullopt;
  auto content = support::readFile(fileOf(key));
  constexpr size_t hash = 32;
  if (!content || content->size() <= hash || sha256(key + content->substr(hash)) != content->substr(0, hash))
    return std::nullopt;
  return content->substr(hash);
}

void KernelCache::keep(const std::string &key, const std::string &object) const {
  if (key.empty() || !support::makeDirectory(folder))
    return;
  (void)support::writeFile(fileOf(key), sha256(key + object) + object);
  llvm::CachePruningPolicy policy; // at most every 20 minutes, what is a week old
  policy.MaxSizeBytes = uint64_t(1) << 30;
  llvm::pruneCache(folder, policy);
}

} // namespace llmc::emit

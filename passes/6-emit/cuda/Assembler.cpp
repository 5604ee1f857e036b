#include "passes/6-emit/cuda/Assembler.h"

#include "lib/support/OutputFile.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <dlfcn.h>

using namespace llvm;

namespace llmc::emit {
namespace {

Error failure(const Twine &message) { return createStringError(message); }

// Holds the functions of nvJitLink that are called. Its header is part of the toolkit, which the
// build does not need: these are its documented types. Each name carries the version of the
// interface, for example __nvJitLinkCreate_13_0.
struct JitLink {
  using Handle = void *;
  using Result = int; // 0: success
  static constexpr int kInputPtx = 2;
  Result (*nvJitLinkVersion)(unsigned *major, unsigned *minor) = nullptr;
#define LLMC_JITLINK_FUNCTIONS(F)                                                                \
  F(Create, Handle *, uint32_t, const char **)                                                   \
  F(Destroy, Handle *)                                                                           \
  F(AddData, Handle, int, const void *, size_t, const char *)                                    \
  F(Complete, Handle)                                                                            \
  F(GetLinkedCubinSize, Handle, size_t *)                                                        \
  F(GetLinkedCubin, Handle, void *)                                                              \
  F(GetErrorLogSize, Handle, size_t *)                                                           \
  F(GetErrorLog, Handle, char *)                                                                 \
  F(GetInfoLogSize, Handle, size_t *)                                                            \
  F(GetInfoLog, Handle, char *)
#define F(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  LLMC_JITLINK_FUNCTIONS(F)
#undef F
};

// States the oldest interface that knows sm_100.
constexpr unsigned kLeastMajor = 12, kLeastMinor = 8;

class JitLinkAssembler : public Assembler {
public:
  // Returns null, and the reason in `why`, if the library at `path` is missing or too old.
  static std::unique_ptr<Assembler> open(const std::string &path, std::string &why);

  std::string describe() const override {
    return ("nvJitLink " + Twine(major) + "." + Twine(minor)).str();
  }
  Expected<Output> assemble(const std::string &ptx, StringRef chip) override;

private:
  std::string text(JitLink::Handle handle, decltype(JitLink::GetInfoLogSize) size,
                   decltype(JitLink::GetInfoLog) get);

  JitLink f;
  unsigned major = 0, minor = 0;
};

std::unique_ptr<Assembler> JitLinkAssembler::open(const std::string &path, std::string &why) {
  // The library is never closed: its threads and tables outlive what we could wait for.
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    why = ::dlerror();
    return nullptr;
  }
  auto made = std::make_unique<JitLinkAssembler>();
  JitLink &f = made->f;
  f.nvJitLinkVersion =
      reinterpret_cast<decltype(f.nvJitLinkVersion)>(::dlsym(library, "nvJitLinkVersion"));
  if (!f.nvJitLinkVersion || f.nvJitLinkVersion(&made->major, &made->minor)) {
    why = path + " does not tell its version";
    return nullptr;
  }
  if (std::pair(made->major, made->minor) < std::pair(kLeastMajor, kLeastMinor)) {
    why = path + " is " + made->describe() + ", older than 12.8";
    return nullptr;
  }
  std::string version = ("_" + Twine(made->major) + "_" + Twine(made->minor)).str();
  bool complete = true;
#define F(name, ...)                                                                             \
  f.name = reinterpret_cast<decltype(f.name)>(                                                   \
      ::dlsym(library, ("__nvJitLink" #name + version).c_str()));                                \
  complete = complete && f.name;
  LLMC_JITLINK_FUNCTIONS(F)
#undef F
  if (!complete) {
    why = path + " has not the functions of " + made->describe();
    return nullptr;
  }
  return made;
}

std::string JitLinkAssembler::text(JitLink::Handle handle, decltype(JitLink::GetInfoLogSize) size,
                                   decltype(JitLink::GetInfoLog) get) {
  size_t bytes = 0;
  if (size(handle, &bytes) || bytes == 0)
    return {};
  std::string text(bytes, '\0');
  if (get(handle, text.data()))
    return {};
  text.resize(StringRef(text).find('\0') == StringRef::npos ? bytes : StringRef(text).find('\0'));
  return text;
}

Expected<Assembler::Output> JitLinkAssembler::assemble(const std::string &ptx, StringRef chip) {
  std::string arch = ("-arch=" + chip).str();
  const char *options[] = {arch.c_str(), "-O3", "-verbose"};
  JitLink::Handle handle = nullptr;
  if (f.Create(&handle, std::size(options), options))
    return failure(describe() + " does not know " + chip);
  Output output;
  size_t size = 0;
  // The zero at the end of the text is part of the input.
  bool good = !f.AddData(handle, JitLink::kInputPtx, ptx.c_str(), ptx.size() + 1, "kernels") &&
              !f.Complete(handle) && !f.GetLinkedCubinSize(handle, &size) && size > 0;
  if (good) {
    output.cubin.resize(size);
    good = !f.GetLinkedCubin(handle, output.cubin.data());
    output.log = text(handle, f.GetInfoLogSize, f.GetInfoLog);
  }
  std::string errors = text(handle, f.GetErrorLogSize, f.GetErrorLog);
  f.Destroy(&handle);
  if (!good)
    return failure(describe() + ": " + StringRef(errors).trim());
  return output;
}

class PtxasAssembler : public Assembler {
public:
  static std::unique_ptr<Assembler> open(const std::string &path, std::string &why);

  std::string describe() const override { return "ptxas " + version; }
  Expected<Output> assemble(const std::string &ptx, StringRef chip) override;

private:
  // Runs it with `arguments`; returns what it printed, kept meanwhile in `folder`, or an error.
  Expected<std::string> run(ArrayRef<StringRef> arguments, StringRef folder);

  std::string path, version;
};

// Owns a temporary folder, which it removes with all its files.
struct TemporaryFolder {
  SmallString<128> path;
  std::error_code error = sys::fs::createUniqueDirectory("llmc-ptxas", path);
  ~TemporaryFolder() {
    if (!error)
      sys::fs::remove_directories(path);
  }
  std::string file(StringRef name) const { return (path + "/" + name).str(); }
};

Expected<std::string> PtxasAssembler::run(ArrayRef<StringRef> arguments, StringRef folder) {
  std::string log = (folder + "/log").str(), message;
  SmallVector<StringRef> all{path};
  all.append(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  int code = sys::ExecuteAndWait(path, all, std::nullopt, redirects, 0, 0, &message);
  auto text = MemoryBuffer::getFile(log);
  std::string printed = text ? (*text)->getBuffer().str() : "";
  if (code != 0)
    return failure(path + ": " + (message.empty() ? StringRef(printed).trim() : StringRef(message)));
  return printed;
}

std::unique_ptr<Assembler> PtxasAssembler::open(const std::string &path, std::string &why) {
  auto made = std::make_unique<PtxasAssembler>();
  made->path = path;
  TemporaryFolder folder;
  if (folder.error) {
    why = "no temporary folder: " + folder.error.message();
    return nullptr;
  }
  auto text = made->run({"--version"}, folder.path);
  if (!text) {
    why = toString(text.takeError());
    return nullptr;
  }
  // The output holds "Cuda compilation tools, release 13.0, V13.0.88".
  StringRef release = StringRef(*text).split("release ").second;
  unsigned major = 0, minor = 0;
  if (release.consumeInteger(10, major) || !release.consume_front(".") ||
      release.consumeInteger(10, minor)) {
    why = path + " does not tell its version";
    return nullptr;
  }
  made->version = (Twine(major) + "." + Twine(minor)).str();
  if (release.consume_front(", V"))
    made->version = release.take_while([](char c) { return c == '.' || isdigit(c); }).str();
  if (std::pair(major, minor) < std::pair(kLeastMajor, kLeastMinor)) {
    why = path + " is " + made->describe() + ", older than 12.8";
    return nullptr;
  }
  return made;
}

Expected<Assembler::Output> PtxasAssembler::assemble(const std::string &ptx, StringRef chip) {
  TemporaryFolder folder;
  if (folder.error)
    return failure("no temporary folder: " + folder.error.message());
  std::string input = folder.file("kernels.ptx"), output = folder.file("kernels.cubin");
  if (support::Status status = support::writeFile(input, ptx); !status)
    return failure(status.message());
  std::string arch = ("-arch=" + chip).str();
  auto log = run({arch, "-O3", "-v", "-o", output, input}, folder.path);
  if (!log)
    return log.takeError();
  auto cubin = MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!cubin)
    return failure(path + " wrote no cubin");
  return Output{(*cubin)->getBuffer().str(), std::move(*log)};
}

StringRef environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

// Returns the folders that may hold a toolkit; one that the user names is the only one.
SmallVector<std::string> folders() {
  if (StringRef own = environment("LLMC_CUDA_PATH"); !own.empty())
    return {own.str()};
  SmallVector<std::string> found;
  for (const char *name : {"CUDA_HOME", "CUDA_PATH"})
    if (StringRef value = environment(name); !value.empty())
      found.push_back(value.str());
  found.push_back("/usr/local/cuda");
  return found;
}

// Appends the files under one of `names` that exist in `folder` and in the folders in it (pip's
// are nvidia/cu13, nvidia/nvjitlink, ...).
void candidates(StringRef folder, ArrayRef<StringRef> names, SmallVectorImpl<std::string> &found) {
  SmallVector<std::string> roots{folder.str()};
  std::error_code error;
  for (sys::fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    roots.push_back(it->path());
  for (const std::string &root : roots)
    for (StringRef name : names)
      if (std::string path = (root + "/" + name).str(); sys::fs::exists(path))
        found.push_back(path);
}

using Open = std::unique_ptr<Assembler> (*)(const std::string &path, std::string &why);

std::unique_ptr<Assembler> tryAll(ArrayRef<std::string> paths, Open open, std::string &notes) {
  for (const std::string &path : paths) {
    std::string why;
    if (auto made = open(path, why))
      return made;
    if (StringRef(path).contains('/')) // was there: the user wants to know
      notes += "; " + why;
  }
  return nullptr;
}

} // namespace

Expected<std::unique_ptr<Assembler>> Assembler::find() {
  auto all = findAll();
  if (!all)
    return all.takeError();
  return std::move(all->front());
}

Expected<std::vector<std::unique_ptr<Assembler>>> Assembler::findAll() {
  StringRef kind = environment("LLMC_CUDA_ASSEMBLER"), own = environment("LLMC_CUDA_PATH");
  if (!kind.empty() && kind != "nvjitlink" && kind != "ptxas")
    return failure("LLMC_CUDA_ASSEMBLER is nvjitlink or ptxas, got '" + kind + "'");
  SmallVector<std::string> libraries, programs;
  for (const std::string &folder : folders()) {
    candidates(folder,
               {"lib64/libnvJitLink.so.13", "lib/libnvJitLink.so.13", "lib64/libnvJitLink.so.12",
                "lib/libnvJitLink.so.12"},
               libraries);
    candidates(folder, {"bin/ptxas"}, programs);
  }
  if (own.empty()) {
    libraries.append({"libnvJitLink.so.13", "libnvJitLink.so.12"});
    if (auto path = sys::findProgramByName("ptxas"))
      programs.push_back(*path);
  }

  std::string notes;
  std::vector<std::unique_ptr<Assembler>> all;
  if (kind != "ptxas")
    if (auto made = tryAll(libraries, JitLinkAssembler::open, notes))
      all.push_back(std::move(made));
  if (kind != "nvjitlink")
    if (auto made = tryAll(programs, PtxasAssembler::open, notes))
      all.push_back(std::move(made));
  if (!all.empty())
    return all;
  std::string where = own.empty() ? "CUDA_HOME, CUDA_PATH, /usr/local/cuda, the loader's folders or PATH"
                                  : own.str();
  return failure("no CUDA assembler of version 12.8 or later: neither libnvJitLink nor ptxas is in " +
                 where + notes +
                 "; install a CUDA toolkit, or 'pip install nvidia-cuda-nvcc' and set "
                 "LLMC_CUDA_PATH to its folder 'nvidia'");
}

} // namespace llmc::emit

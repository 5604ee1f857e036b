#include "runtime/compute/Kernels.h"

#include "runtime/compute/Cpu.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace llmc;
using namespace llmc::runtime;
using support::error;

namespace {

support::Status writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return error("cannot write the kernels to memory: ", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return support::ok();
}

} // namespace

support::Result<Kernels> Kernels::load(std::string_view sharedObject,
                                       const planfile::ProgramT &program) {
  if (program.kernels.empty())
    return Kernels(std::vector<KernelFunction>{});
  int fd = ::memfd_create("llmc-kernels", MFD_CLOEXEC);
  if (fd < 0)
    return error("cannot make a file in memory for the kernels: ", std::strerror(errno));
  if (support::Status s = writeAll(fd, sharedObject); !s) {
    ::close(fd);
    return s.takeError();
  }
  std::string path = support::text("/proc/self/fd/", fd);
  // Keeps the descriptor open: the loader tells objects apart by their path, so a reused
  // number would yield this object again instead of the next one.
  void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return error("cannot load the kernels: ", ::dlerror());
  std::vector<KernelFunction> functions;
  for (const auto &kernel : program.kernels) {
    void *symbol = ::dlsym(handle, kernel->name.c_str());
    if (!symbol)
      return error("kernel '", kernel->name, "' is missing from the program");
    functions.push_back(reinterpret_cast<KernelFunction>(symbol));
  }
  return Kernels(std::move(functions));
}

support::Result<Kernels> Kernels::load(const planfile::Payload &payload,
                                       const planfile::ProgramT &program, std::string_view cpu,
                                       std::string_view prefix) {
  support::Result<std::string_view> best = chooseCpu(readCpuFeatures(), cpu);
  if (!best)
    return best.takeError();
  auto section = [prefix](std::string_view version) { return std::string(prefix) + std::string(version); };
  // Falls back to the only section of a program that was compiled for fewer processors.
  std::string name = section(*best);
  if (cpu.empty() && !payload.has(name))
    name = section(planfile::kKernelsSection.substr(planfile::kKernelsPrefix.size()));
  support::Result<std::string_view> code = payload.section(name);
  if (!code)
    return code.takeError();
  support::Result<Kernels> kernels = load(*code, program);
  if (kernels)
    kernels->note_ = name.substr(prefix.size());
  return kernels;
}

// A driver without a card: the functions of libcuda that llmc-gpu-check calls. It is
// strict: every use that the driver forbids or leaves undefined is an error here, is
// told on stderr, and makes the process end with status 66. A "kernel" is the CPU's kernel of
// the same program, so results are right unless a fault is asked for.
//
// LLMC_FAKE_CUDA_PROGRAM  the program whose cubins may be loaded
// LLMC_FAKE_CUDA_CHIP     compute capability, for example 90
// LLMC_FAKE_CUDA_FAULT    no-device, no-memory, launch, wrong, nan, outside, halves
#include "lib/planfile/Device.h"
#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"
#include "runtime/compute/Kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unistd.h>

using namespace llmc;

namespace {

// The driver's documented numbers.
enum Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinary = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kLaunchFailed = 719,
};

constexpr unsigned kMaxThreads = 1024;
constexpr int kMisused = 66;

struct Event {
  bool recorded = false;
};
struct Module;
struct Function {
  Module *module;
  const planfile::DeviceKernelT *kernel;
};
struct Module {
  std::map<std::string, Function> functions;
};

// All that the driver knows; lives as long as the process.
struct State {
  bool initialized = false;
  int retained = 0;
  bool current = false;
  bool misused = false;
  bool brokenContext = false;
  std::map<uint64_t, std::unique_ptr<std::byte[]>> storage; // by address
  std::map<uint64_t, size_t> memory;                        // size of the live ones
  std::set<Event *> events;
  std::set<Module *> modules;
  // The program.
  std::optional<planfile::Payload> payload;
  std::unique_ptr<planfile::ProgramT> program;
  std::vector<std::unique_ptr<planfile::DeviceImageT>> images;
  std::optional<runtime::Kernels> kernels;

  ~State() {
    if (!memory.empty() || !events.empty() || !modules.empty() || retained)
      misuse("at the end: memory, events, modules or the context were not released");
    if (misused)
      ::_exit(kMisused);
  }
  Result misuse(const char *what, Result result = kInvalidValue) {
    std::fprintf(stderr, "fake driver: %s\n", what);
    misused = true;
    return result;
  }
};

State &state() {
  static State state;
  return state;
}

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}
bool fault(const char *name) { return environment("LLMC_FAKE_CUDA_FAULT") == name; }
int chip() { return std::atoi(environment("LLMC_FAKE_CUDA_CHIP").c_str()); }

Result needContext(const char *who) {
  if (!state().initialized)
    return state().misuse(who, kNotInitialized);
  if (!state().current || !state().retained)
    return state().misuse(who, kInvalidContext);
  return state().brokenContext ? kLaunchFailed : kSuccess;
}

bool openProgram() {
  State &s = state();
  if (s.program)
    return true;
  auto payload = planfile::Payload::open(environment("LLMC_FAKE_CUDA_PROGRAM"));
  if (!payload)
    return false;
  s.payload.emplace(std::move(*payload));
  auto plan = s.payload->section(planfile::kPlanSection);
  auto program = planfile::readProgram(plan ? *plan : std::string_view());
  if (!program)
    return false;
  auto images = planfile::readDeviceImages(*s.payload, **program);
  auto kernels = runtime::Kernels::load(*s.payload, **program, "");
  if (!images || !kernels)
    return false;
  s.program = std::move(*program);
  s.images = std::move(*images);
  s.kernels.emplace(std::move(*kernels));
  return true;
}

// Bytes from `address` to the end of its live allocation; 0 if it lies in none.
size_t bytesFrom(uint64_t address) {
  const auto &memory = state().memory;
  auto above = memory.upper_bound(address);
  if (above == memory.begin())
    return 0;
  auto [begin, size] = *std::prev(above);
  return address < begin + size ? begin + size - address : 0;
}

// Spoils what a kernel wrote to its last buffer.
void spoil(const planfile::DeviceKernelT &kernel, std::byte *last, int64_t begin, int64_t end) {
  bool isFloat = kernel.buffers.back()->dtype == planfile::DType::F32;
  float value = 0;
  std::memcpy(&value, last, sizeof value);
  if (fault("wrong") && isFloat)
    value += 1.0f;
  if (fault("nan") && isFloat)
    value = NAN;
  if (fault("halves") && isFloat && begin > 0)
    value = std::nextafter(value, INFINITY);
  std::memcpy(last, &value, sizeof value);
  auto round = [last](int elements, int by) {
    for (int i = 0; i < elements; ++i) {
      uint16_t bits;
      std::memcpy(&bits, last + 2 * i, sizeof bits);
      bits = static_cast<uint16_t>(bits + by);
      std::memcpy(last + 2 * i, &bits, sizeof bits);
    }
  };
  if (kernel.buffers.back()->dtype == planfile::DType::BF16 && begin == 0) {
    if (fault("one-rounding"))
      round(1, 1);
    if (fault("two-roundings"))
      round(1, 2);
    if (fault("many-roundings"))
      round(64, 1);
  }
  if (fault("outside"))
    last[-1] = std::byte{1};
}

} // namespace

extern "C" {

Result cuInit(unsigned flags) {
  if (flags != 0)
    return state().misuse("cuInit: flags must be 0");
  if (fault("no-device"))
    return kNoDevice;
  state().initialized = true;
  return kSuccess;
}

Result cuDriverGetVersion(int *version) {
  *version = 13000;
  return kSuccess;
}

Result cuGetErrorName(Result result, const char **name) {
  static const std::map<int, const char *> names = {
      {kSuccess, "CUDA_SUCCESS"},
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {kNoBinary, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"}};
  auto at = names.find(result);
  *name = at == names.end() ? nullptr : at->second;
  return at == names.end() ? kInvalidValue : kSuccess;
}

Result cuDeviceGetCount(int *count) {
  if (!state().initialized)
    return state().misuse("cuDeviceGetCount before cuInit", kNotInitialized);
  *count = 1;
  return kSuccess;
}

Result cuDeviceGet(int *device, int ordinal) {
  if (!state().initialized || ordinal != 0)
    return state().misuse("cuDeviceGet: no such device", kInvalidDevice);
  *device = 0;
  return kSuccess;
}

Result cuDeviceGetName(char *name, int size, int device) {
  if (size <= 0 || device != 0)
    return state().misuse("cuDeviceGetName");
  std::snprintf(name, size, "fake card");
  return kSuccess;
}

Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  constexpr int kMultiprocessors = 16, kL2CacheSize = 38, kMajor = 75, kMinor = 76;
  if (device != 0)
    return state().misuse("cuDeviceGetAttribute: no such device", kInvalidDevice);
  if (attribute == kMultiprocessors)
    *value = 4;
  else if (attribute == kL2CacheSize)
    *value = 1 << 16;
  else if (attribute == kMajor)
    *value = chip() / 10;
  else if (attribute == kMinor)
    *value = chip() % 10;
  else
    return state().misuse("cuDeviceGetAttribute: an attribute that nobody asked for yet");
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(void **context, int device) {
  if (!state().initialized || device != 0)
    return state().misuse("cuDevicePrimaryCtxRetain", kInvalidDevice);
  ++state().retained;
  *context = &state();
  return kSuccess;
}

Result cuDevicePrimaryCtxRelease_v2(int device) {
  if (device != 0 || state().retained == 0)
    return state().misuse("cuDevicePrimaryCtxRelease: not retained", kInvalidContext);
  if (!state().memory.empty() || !state().modules.empty() || !state().events.empty())
    state().misuse("cuDevicePrimaryCtxRelease: memory, modules or events are still alive");
  --state().retained;
  return kSuccess;
}

Result cuCtxSetCurrent(void *context) {
  if (context && context != &state())
    return state().misuse("cuCtxSetCurrent: no such context", kInvalidContext);
  state().current = context;
  return kSuccess;
}

Result cuCtxSynchronize() { return needContext("cuCtxSynchronize without a context"); }

Result cuModuleLoadData(Module **module, const void *image) {
  if (Result r = needContext("cuModuleLoadData without a context"))
    return r;
  if (!openProgram())
    return state().misuse("LLMC_FAKE_CUDA_PROGRAM names no program", kInvalidImage);
  for (const auto &known : state().images) {
    // The size of an image is not told: it is one of the program's, or no image of ours.
    if (std::memcmp(image, "\x7f" "ELF", 4) != 0 ||
        std::memcmp(image, known->cubin.data(), known->cubin.size()) != 0)
      continue;
    int made = std::atoi(known->chip.c_str() + 3);
    if (made / 10 != chip() / 10 || made > chip())
      return kNoBinary;
    auto *loaded = new Module();
    for (const auto &kernel : known->kernels)
      loaded->functions[kernel->entry] = {loaded, kernel.get()};
    state().modules.insert(loaded);
    *module = loaded;
    return kSuccess;
  }
  return state().misuse("cuModuleLoadData: not a cubin of the program", kInvalidImage);
}

Result cuModuleUnload(Module *module) {
  if (Result r = needContext("cuModuleUnload without a context"); r && r != kLaunchFailed)
    return r;
  if (!state().modules.erase(module))
    return state().misuse("cuModuleUnload: not loaded", kInvalidHandle);
  delete module;
  return kSuccess;
}

Result cuModuleGetFunction(Function **function, Module *module, const char *name) {
  if (Result r = needContext("cuModuleGetFunction without a context"))
    return r;
  if (!state().modules.count(module))
    return state().misuse("cuModuleGetFunction: no such module", kInvalidHandle);
  auto at = module->functions.find(name);
  if (at == module->functions.end())
    return kNotFound;
  *function = &at->second;
  return kSuccess;
}

Result cuMemAlloc_v2(uint64_t *address, size_t size) {
  if (Result r = needContext("cuMemAlloc without a context"))
    return r;
  if (size == 0)
    return state().misuse("cuMemAlloc of 0 bytes");
  if (fault("no-memory"))
    return kOutOfMemory;
  constexpr size_t kAlign = 256;
  auto bytes = std::make_unique<std::byte[]>(size + kAlign);
  uint64_t begin = (reinterpret_cast<uint64_t>(bytes.get()) + kAlign - 1) / kAlign * kAlign;
  state().memory[begin] = size;
  state().storage[begin] = std::move(bytes);
  *address = begin;
  return kSuccess;
}

Result cuMemFree_v2(uint64_t address) {
  if (Result r = needContext("cuMemFree without a context"); r && r != kLaunchFailed)
    return r;
  if (!state().memory.erase(address))
    return state().misuse("cuMemFree: not allocated");
  state().storage.erase(address);
  return kSuccess;
}

Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
  if (Result r = needContext("cuMemcpyHtoD without a context"))
    return r;
  if (bytesFrom(to) < size)
    return state().misuse("cuMemcpyHtoD: past the end of the memory");
  std::memcpy(reinterpret_cast<void *>(to), from, size);
  return kSuccess;
}

Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
  if (Result r = needContext("cuMemcpyDtoH without a context"))
    return r;
  if (bytesFrom(from) < size)
    return state().misuse("cuMemcpyDtoH: past the end of the memory");
  std::memcpy(to, reinterpret_cast<const void *>(from), size);
  return kSuccess;
}

Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) {
  if (Result r = needContext("cuMemcpyDtoDAsync without a context"))
    return r;
  if (stream || bytesFrom(to) < size || bytesFrom(from) < size)
    return state().misuse("cuMemcpyDtoDAsync: past the end of the memory, or no such stream");
  std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), size);
  return kSuccess;
}

Result cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *stream) {
  if (Result r = needContext("cuMemsetD8Async without a context"))
    return r;
  if (stream || bytesFrom(to) < size)
    return state().misuse("cuMemsetD8Async: past the end of the memory, or no such stream");
  std::memset(reinterpret_cast<void *>(to), value, size);
  return kSuccess;
}

Result cuLaunchKernel(Function *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                      unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                      void *stream, void **parameters, void **extra) {
  if (Result r = needContext("cuLaunchKernel without a context"))
    return r;
  if (!function || !state().modules.count(function->module))
    return state().misuse("cuLaunchKernel: the function's module is not loaded", kInvalidHandle);
  const planfile::DeviceKernelT &kernel = *function->kernel;
  if (gridX == 0 || gridY != 1 || gridZ != 1 || gridX > 0x7fffffff || blockX != kernel.threads || blockX > kMaxThreads || blockY != 1 ||
      blockZ != 1 || stream || extra || !parameters)
    return state().misuse("cuLaunchKernel: not the kernel's grid or block");
  if (sharedBytes != 0)
    return state().misuse("cuLaunchKernel: the kernel has its shared memory already");
  if (fault("launch")) {
    state().brokenContext = true;
    return kLaunchFailed;
  }
  std::vector<void *> buffers;
  std::vector<int64_t> scalars(kernel.scalars + 2);
  size_t pointers = kernel.buffers.size() + (kernel.scratch_bytes > 0);
  for (size_t i = 0; i < pointers; ++i) {
    uint64_t address;
    std::memcpy(&address, parameters[i], sizeof address);
    // Requires of an address what the kernel's widest access to it does, as a card would: a
    // view of one number lies anywhere. Scratch is an allocation of its own.
    uint64_t alignment = i < kernel.buffers.size() ? kernel.buffers[i]->access : 16;
    if (address % std::max<uint64_t>(alignment, 1) != 0 || bytesFrom(address) == 0)
      return state().misuse("cuLaunchKernel: a buffer is not aligned, or not memory of the card");
    buffers.push_back(reinterpret_cast<void *>(address));
  }
  if (kernel.scratch_bytes > 0) {
    auto *scratch = static_cast<const std::byte *>(buffers.back());
    if (bytesFrom(reinterpret_cast<uint64_t>(scratch)) < kernel.scratch_bytes ||
        std::any_of(scratch, scratch + 16, [](std::byte b) { return b != std::byte{0}; }))
      return state().misuse("cuLaunchKernel: scratch is too small, or does not begin with zeros");
  }
  for (size_t i = 0; i < scalars.size(); ++i)
    std::memcpy(&scalars[i], parameters[pointers + i], sizeof(int64_t));
  int64_t end = scalars.back(), begin = scalars[scalars.size() - 2];
  if (begin < 0 || end < begin || static_cast<uint64_t>(begin) % kernel.begin_multiple != 0)
    return state().misuse("cuLaunchKernel: no range of rows");
  (*state().kernels)[kernel.kernel](buffers.data(), scalars.data(), begin, end);
  spoil(kernel, static_cast<std::byte *>(buffers[kernel.buffers.size() - 1]), begin, end);
  return kSuccess;
}

Result cuEventCreate(Event **event, unsigned flags) {
  if (Result r = needContext("cuEventCreate without a context"))
    return r;
  if (flags != 0)
    return state().misuse("cuEventCreate: flags that nobody asked for yet");
  *event = new Event();
  state().events.insert(*event);
  return kSuccess;
}

Result cuEventDestroy_v2(Event *event) {
  if (!state().events.erase(event))
    return state().misuse("cuEventDestroy: no such event", kInvalidHandle);
  delete event;
  return kSuccess;
}

Result cuEventRecord(Event *event, void *stream) {
  if (Result r = needContext("cuEventRecord without a context"))
    return r;
  if (!state().events.count(event) || stream)
    return state().misuse("cuEventRecord: no such event or stream", kInvalidHandle);
  event->recorded = true;
  return kSuccess;
}

Result cuEventSynchronize(Event *event) {
  if (!state().events.count(event) || !event->recorded)
    return state().misuse("cuEventSynchronize: not recorded", kInvalidHandle);
  return kSuccess;
}

Result cuEventElapsedTime(float *milliseconds, Event *begin, Event *end) {
  if (!state().events.count(begin) || !state().events.count(end) || !begin->recorded ||
      !end->recorded)
    return state().misuse("cuEventElapsedTime: not recorded", kInvalidHandle);
  *milliseconds = 1;
  return kSuccess;
}

} // extern "C"

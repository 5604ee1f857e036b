#include "tools/llmc-gpu-check/Driver.h"

#include <cstdlib>
#include <dlfcn.h>
#include <utility>

using namespace llmc;
using namespace llmc::gpucheck;
using support::error;

namespace {

// Identifies attributes by the driver's documented numbers.
constexpr int kMultiprocessorCount = 16, kL2CacheSize = 38, kCapabilityMajor = 75,
              kCapabilityMinor = 76;
// Identifies the oldest driver with every function of the table.
constexpr int kLeastDriver = 11000;

} // namespace

std::unique_ptr<Device> Device::open(std::string &why) {
  const char *named = std::getenv("LLMC_CUDA_DRIVER");
  std::string path = named && *named ? named : "libcuda.so.1";
  // Never closes the library: the driver's threads may still run then.
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    why = "no CUDA driver: " + std::string(::dlerror());
    return nullptr;
  }
  std::unique_ptr<Device> device(new Device());
  std::string missing;
#define F(name, symbol, ...)                                                                     \
  device->f_.name = reinterpret_cast<decltype(device->f_.name)>(::dlsym(library, #symbol));     \
  if (!device->f_.name)                                                                          \
    missing = #symbol;
  LLMC_DRIVER_FUNCTIONS(F)
#undef F
  if (!missing.empty()) {
    why = path + " has no " + missing + "; a driver for CUDA 11 or later has it";
    return nullptr;
  }
  int count = 0;
  support::Status status = device->check(device->f_.init(0), "cuInit");
  if (status)
    status = device->check(device->f_.deviceGetCount(&count), "cuDeviceGetCount");
  if (status && count == 0)
    status = error("the driver finds no device");
  if (status)
    status = device->describe();
  if (!status) {
    why = status.message();
    return nullptr;
  }
  return device;
}

support::Status Device::describe() {
  char name[128] = {};
  int major = 0, minor = 0, multiprocessors = 0, cache = 0;
  CUcontext context = nullptr;
  if (auto s = check(f_.driverGetVersion(&driverVersion_), "cuDriverGetVersion"); !s)
    return s;
  if (driverVersion_ < kLeastDriver)
    return error("the driver is for CUDA ", driverVersion_ / 1000, ", older than 11");
  if (auto s = check(f_.deviceGet(&device_, 0), "cuDeviceGet"); !s)
    return s;
  if (auto s = check(f_.deviceGetName(name, sizeof name, device_), "cuDeviceGetName"); !s)
    return s;
  auto attribute = [&](int &value, int which) {
    return check(f_.deviceGetAttribute(&value, which, device_), "cuDeviceGetAttribute");
  };
  for (auto [value, which] : {std::pair(&major, kCapabilityMajor), {&minor, kCapabilityMinor},
                              {&multiprocessors, kMultiprocessorCount}, {&cache, kL2CacheSize}})
    if (auto s = attribute(*value, which); !s)
      return s;
  name_ = name;
  capability_ = major * 10 + minor;
  multiprocessors_ = multiprocessors > 0 ? multiprocessors : 1;
  cacheBytes_ = cache > 0 ? static_cast<size_t>(cache) : 0;
  if (auto s = check(f_.primaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain"); !s)
    return s;
  retained_ = true;
  return check(f_.ctxSetCurrent(context), "cuCtxSetCurrent");
}

Device::~Device() {
  if (!retained_)
    return;
  f_.ctxSetCurrent(nullptr);
  f_.primaryCtxRelease(device_);
}

support::Status Device::check(CUresult result, std::string_view what) const {
  if (result == 0)
    return support::ok();
  const char *name = nullptr;
  if (f_.getErrorName(result, &name) || !name)
    return error(what, ": error ", result);
  return error(what, ": ", name);
}

support::Result<Module> Module::load(const Device &device, const std::vector<uint8_t> &cubin) {
  Module module(device);
  if (auto s = device.check(device.f().moduleLoadData(&module.module_, cubin.data()),
                            "cuModuleLoadData");
      !s)
    return s.takeError();
  return module;
}

Module::Module(Module &&other) noexcept
    : device_(other.device_), module_(std::exchange(other.module_, nullptr)) {}

Module::~Module() {
  if (module_)
    device_->f().moduleUnload(module_);
}

support::Result<CUfunction> Module::function(const std::string &entry) const {
  CUfunction function = nullptr;
  if (auto s = device_->check(
          device_->f().moduleGetFunction(&function, module_, entry.c_str()),
          "cuModuleGetFunction " + entry);
      !s)
    return s.takeError();
  return function;
}

support::Result<DeviceMemory> DeviceMemory::allocate(const Device &device, size_t bytes) {
  DeviceMemory memory(device);
  if (auto s = device.check(device.f().memAlloc(&memory.address_, bytes), "cuMemAlloc"); !s)
    return s.takeError();
  memory.size_ = bytes;
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory &&other) noexcept
    : device_(other.device_), address_(std::exchange(other.address_, 0)), size_(other.size_) {}

DeviceMemory::~DeviceMemory() {
  if (address_)
    device_->f().memFree(address_);
}

support::Status DeviceMemory::write(std::span<const std::byte> from) {
  return device_->check(device_->f().memcpyHtoD(address_, from.data(), from.size()),
                        "cuMemcpyHtoD");
}

support::Status DeviceMemory::read(std::span<std::byte> to) const {
  return device_->check(device_->f().memcpyDtoH(to.data(), address_, to.size()), "cuMemcpyDtoH");
}

support::Result<Stopwatch> Stopwatch::create(const Device &device) {
  Stopwatch watch(device);
  for (CUevent *event : {&watch.begin_, &watch.end_})
    if (auto s = device.check(device.f().eventCreate(event, 0), "cuEventCreate"); !s)
      return s.takeError();
  return watch;
}

Stopwatch::Stopwatch(Stopwatch &&other) noexcept
    : device_(other.device_), begin_(std::exchange(other.begin_, nullptr)),
      end_(std::exchange(other.end_, nullptr)) {}

Stopwatch::~Stopwatch() {
  for (CUevent event : {begin_, end_})
    if (event)
      device_->f().eventDestroy(event);
}

support::Status Stopwatch::start() {
  return device_->check(device_->f().eventRecord(begin_, nullptr), "cuEventRecord");
}

support::Result<double> Stopwatch::stop() {
  float milliseconds = 0;
  support::Status s = device_->check(device_->f().eventRecord(end_, nullptr), "cuEventRecord");
  if (s)
    s = device_->check(device_->f().eventSynchronize(end_), "cuEventSynchronize");
  if (s)
    s = device_->check(device_->f().eventElapsedTime(&milliseconds, begin_, end_),
                       "cuEventElapsedTime");
  if (!s)
    return s.takeError();
  return double(milliseconds);
}

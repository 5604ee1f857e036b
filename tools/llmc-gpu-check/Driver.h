// Wraps NVIDIA's driver, found with dlopen: nothing of CUDA is needed to build this. Tests use
// test/fakes/FakeCuda.cpp in its place.
#ifndef LLMC_TOOLS_LLMC_GPU_CHECK_DRIVER_H
#define LLMC_TOOLS_LLMC_GPU_CHECK_DRIVER_H

#include "lib/support/Error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::gpucheck {

// Declares the driver's documented types; its header is part of the toolkit.
using CUresult = int; // 0: success
using CUdevice = int;
using CUdeviceptr = unsigned long long;
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUevent_st;
struct CUstream_st;
using CUcontext = CUctx_st *;
using CUmodule = CUmod_st *;
using CUfunction = CUfunc_st *;
using CUevent = CUevent_st *;
using CUstream = CUstream_st *;

// Lists every function of the driver that is called: member here, symbol, argument types.
#define LLMC_DRIVER_FUNCTIONS(F)                                                                 \
  F(init, cuInit, unsigned)                                                                      \
  F(driverGetVersion, cuDriverGetVersion, int *)                                                 \
  F(getErrorName, cuGetErrorName, CUresult, const char **)                                       \
  F(deviceGetCount, cuDeviceGetCount, int *)                                                     \
  F(deviceGet, cuDeviceGet, CUdevice *, int)                                                     \
  F(deviceGetName, cuDeviceGetName, char *, int, CUdevice)                                       \
  F(deviceGetAttribute, cuDeviceGetAttribute, int *, int, CUdevice)                              \
  F(primaryCtxRetain, cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                           \
  F(primaryCtxRelease, cuDevicePrimaryCtxRelease_v2, CUdevice)                                   \
  F(ctxSetCurrent, cuCtxSetCurrent, CUcontext)                                                   \
  F(ctxSynchronize, cuCtxSynchronize)                                                            \
  F(moduleLoadData, cuModuleLoadData, CUmodule *, const void *)                                  \
  F(moduleUnload, cuModuleUnload, CUmodule)                                                      \
  F(moduleGetFunction, cuModuleGetFunction, CUfunction *, CUmodule, const char *)                \
  F(memAlloc, cuMemAlloc_v2, CUdeviceptr *, size_t)                                              \
  F(memFree, cuMemFree_v2, CUdeviceptr)                                                          \
  F(memcpyHtoD, cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t)                              \
  F(memcpyDtoH, cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t)                                    \
  F(memcpyDtoDAsync, cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)           \
  F(memsetD8Async, cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)                \
  F(launchKernel, cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,  \
    unsigned, unsigned, CUstream, void **, void **)                                              \
  F(eventCreate, cuEventCreate, CUevent *, unsigned)                                             \
  F(eventDestroy, cuEventDestroy_v2, CUevent)                                                    \
  F(eventRecord, cuEventRecord, CUevent, CUstream)                                               \
  F(eventSynchronize, cuEventSynchronize, CUevent)                                               \
  F(eventElapsedTime, cuEventElapsedTime, float *, CUevent, CUevent)

struct Functions {
#define F(name, symbol, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
  LLMC_DRIVER_FUNCTIONS(F)
#undef F
};

// Owns the first device of this machine, with its primary context current on this thread.
class Device {
public:
  // Opens the device, or returns null and sets `why`. $LLMC_CUDA_DRIVER replaces libcuda.so.1.
  static std::unique_ptr<Device> open(std::string &why);
  ~Device();
  Device(const Device &) = delete;

  const std::string &name() const { return name_; }
  int driverVersion() const { return driverVersion_; } // 13000 for 13.0
  int capability() const { return capability_; }       // 90 for 9.0
  unsigned multiprocessors() const { return multiprocessors_; }
  size_t cacheBytes() const { return cacheBytes_; } // of the L2 cache

  const Functions &f() const { return f_; }
  // Returns success, or an error such as "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY".
  support::Status check(CUresult result, std::string_view what) const;

private:
  Device() = default;
  support::Status describe();

  Functions f_;
  CUdevice device_ = 0;
  bool retained_ = false;
  std::string name_;
  int driverVersion_ = 0, capability_ = 0;
  unsigned multiprocessors_ = 1;
  size_t cacheBytes_ = 0;
};

// Owns a loaded cubin.
class Module {
public:
  static support::Result<Module> load(const Device &device, const std::vector<uint8_t> &cubin);
  Module(Module &&other) noexcept;
  ~Module();
  support::Result<CUfunction> function(const std::string &entry) const;

private:
  explicit Module(const Device &device) : device_(&device) {}
  const Device *device_;
  CUmodule module_ = nullptr;
};

// Owns memory of the device.
class DeviceMemory {
public:
  static support::Result<DeviceMemory> allocate(const Device &device, size_t bytes);
  DeviceMemory(DeviceMemory &&other) noexcept;
  ~DeviceMemory();
  CUdeviceptr address() const { return address_; }
  size_t size() const { return size_; }
  support::Status write(std::span<const std::byte> from);
  support::Status read(std::span<std::byte> to) const;

private:
  explicit DeviceMemory(const Device &device) : device_(&device) {}
  const Device *device_;
  CUdeviceptr address_ = 0;
  size_t size_ = 0;
};

// Measures milliseconds between two points of the default stream.
class Stopwatch {
public:
  static support::Result<Stopwatch> create(const Device &device);
  Stopwatch(Stopwatch &&other) noexcept;
  ~Stopwatch();
  support::Status start();
  support::Result<double> stop(); // waits for the stream; milliseconds since start()

private:
  explicit Stopwatch(const Device &device) : device_(&device) {}
  const Device *device_;
  CUevent begin_ = nullptr, end_ = nullptr;
};

} // namespace llmc::gpucheck

#endif // LLMC_TOOLS_LLMC_GPU_CHECK_DRIVER_H

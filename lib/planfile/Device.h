// Kernels for devices: bytes of a payload section <-> planfile::DeviceImageT.
#ifndef LLMC_LIB_PLANFILE_DEVICE_H
#define LLMC_LIB_PLANFILE_DEVICE_H

#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"
#include "lib/planfile/device_generated.h"
#include "lib/support/Error.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::planfile {

// Sections "cuda-sm_80", "cuda-sm_90", ...: one DeviceImage each.
inline constexpr std::string_view kCudaPrefix = "cuda-";

std::string writeDeviceImage(const DeviceImageT &image);

// Reads an image of any origin: the structure is verified, indices lie in `program`, and
// every kernel of `program` stands in it once, as a kernel or as a refusal.
support::Result<std::unique_ptr<DeviceImageT>> readDeviceImage(std::string_view bytes,
                                                               const ProgramT &program);

// All images that a payload carries, in the order of the file.
support::Result<std::vector<std::unique_ptr<DeviceImageT>>>
readDeviceImages(const Payload &payload, const ProgramT &program);

// Gives each launch of a kernel that needs scratch on some device one more operand, at the end
// of the stage's arena. Launches of a stream follow each other, and share it; other kernels of
// the same launch leave it alone.
void reserveScratch(ProgramT &program, const std::vector<DeviceImageT> &images);

// Blocks for a launch over `rows` rows on a card of so many multiprocessors.
uint64_t blocksFor(const DeviceKernelT &kernel, uint64_t rows, uint64_t multiprocessors);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_DEVICE_H

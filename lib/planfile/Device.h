// Serializes kernels for devices: bytes of a payload section <-> planfile::DeviceImageT. Tests:
// test/planfile/DeviceTest.cpp.
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

// Begins the names of the sections "cuda-sm_80", "cuda-sm_90", ..., each one DeviceImage.
inline constexpr std::string_view kCudaPrefix = "cuda-";

// Returns the bytes of a section with `image`.
std::string writeDeviceImage(const DeviceImageT &image);

// Reads an image of any origin: the structure is verified, indices lie in `program`, and every
// kernel of `program` has exactly one kernel or refusal in it. An error otherwise.
support::Result<std::unique_ptr<DeviceImageT>> readDeviceImage(std::string_view bytes,
                                                               const ProgramT &program);

// Reads all images that a payload carries, in the order of the file; the first error of
// readDeviceImage() ends it.
support::Result<std::vector<std::unique_ptr<DeviceImageT>>>
readDeviceImages(const Payload &payload, const ProgramT &program);

// Appends to each launch of a kernel that needs scratch on some device one more operand, for
// which it extends the stage's arena. Launches of one stream run one after the other and share
// the bytes; the forms of the kernel that need no scratch ignore the operand. Updates
// Stage.live_bytes.
void reserveScratch(ProgramT &program, const std::vector<DeviceImageT> &images);

// Returns the number of thread blocks for a launch over `rows` rows on a device of so many
// multiprocessors: at least 1, at most blocks_per_sm on each of them.
uint64_t blocksFor(const DeviceKernelT &kernel, uint64_t rows, uint64_t multiprocessors);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_DEVICE_H

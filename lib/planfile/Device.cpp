#include "lib/planfile/Device.h"

#include "lib/planfile/Check.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace llmc;
using namespace llmc::planfile;
using support::error;

namespace {

constexpr uint32_t kDeviceVersion = 2;
constexpr uint32_t kMaxThreads = 1024; // of a block, on any chip
constexpr uint32_t kMaxBlocks = 1024;  // of a multiprocessor, resident or queued
constexpr uint64_t kMaxScratch = 1 << 20;
constexpr uint32_t kMaxScalars = 4096; // parameters of a kernel are 4 KiB and more

support::Status check(const DeviceImageT &image, const ProgramT &program) {
  if (image.version != kDeviceVersion)
    return error("device kernels: version ", image.version, ", this program reads version ",
                 kDeviceVersion, "; compile the model again");
  std::vector<int> seen(program.kernels.size());
  auto take = [&](uint32_t kernel) { return kernel < seen.size() && seen[kernel]++ == 0; };
  for (const auto &kernel : image.kernels) {
    if (!take(kernel->kernel))
      return error("device kernels of ", image.chip, ": '", kernel->entry,
                   "' stands for kernel ", kernel->kernel, ", which is not there or has one");
    if (kernel->threads == 0 || kernel->threads > kMaxThreads ||
        kernel->points_per_row == 0 || kernel->points_per_block == 0 ||
        kernel->blocks_per_sm == 0 || kernel->blocks_per_sm > kMaxBlocks ||
        kernel->begin_multiple == 0 || kernel->scalars > kMaxScalars ||
        kernel->scratch_bytes > kMaxScratch)
      return error("device kernels of ", image.chip, ": '", kernel->entry,
                   "' cannot be launched with ", kernel->threads, " threads a block");
    for (const auto &buffer : kernel->buffers)
      if (buffer->dtype > DType::MAX || buffer->limit < 0)
        return error("device kernels of ", image.chip, ": '", kernel->entry,
                     "' has a buffer of unknown type");
  }
  for (const auto &refusal : image.refusals)
    if (!take(refusal->kernel))
      return error("device kernels of ", image.chip, ": a refusal names kernel ",
                   refusal->kernel, ", which is not there or has one");
  size_t missing = std::find(seen.begin(), seen.end(), 0) - seen.begin();
  if (missing < seen.size())
    return error("device kernels of ", image.chip, ": nothing is said of kernel '",
                 program.kernels[missing]->name, "'");
  return support::ok();
}

} // namespace

std::string planfile::writeDeviceImage(const DeviceImageT &image) {
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  builder.Finish(DeviceImage::Pack(builder, &image), DeviceImageIdentifier());
  return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                     builder.GetSize());
}

support::Result<std::unique_ptr<DeviceImageT>>
planfile::readDeviceImage(std::string_view bytes, const ProgramT &program) {
  // Copies the bytes to aligned memory, for the verifier checks alignment of addresses.
  std::vector<uint64_t> aligned((bytes.size() + 7) / 8);
  if (!bytes.empty())
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto *data = reinterpret_cast<const uint8_t *>(aligned.data());
  flatbuffers::Verifier::Options options;
  options.max_depth = 8;
  options.max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / 8 + 16);
  flatbuffers::Verifier verifier(data, bytes.size(), options);
  if (bytes.size() < 8 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE ||
      !VerifyDeviceImageBuffer(verifier))
    return error("device kernels: damaged or truncated (", bytes.size(), " bytes)");
  std::unique_ptr<DeviceImageT> image(GetDeviceImage(data)->UnPack());
  if (support::Status status = check(*image, program); !status)
    return status.takeError();
  return image;
}

support::Result<std::vector<std::unique_ptr<DeviceImageT>>>
planfile::readDeviceImages(const Payload &payload, const ProgramT &program) {
  std::vector<std::unique_ptr<DeviceImageT>> images;
  for (const Section &section : payload.sections()) {
    if (!section.name.starts_with(kCudaPrefix))
      continue;
    auto image = readDeviceImage(section.bytes, program);
    if (!image)
      return image.takeError();
    images.push_back(std::move(*image));
  }
  return images;
}

void planfile::reserveScratch(ProgramT &program, const std::vector<DeviceImageT> &images) {
  std::vector<uint64_t> needed(program.kernels.size(), 0);
  for (const DeviceImageT &image : images)
    for (const auto &kernel : image.kernels)
      needed[kernel->kernel] = std::max(needed[kernel->kernel], kernel->scratch_bytes);
  for (auto &stage : program.stages) {
    std::map<uint8_t, std::pair<uint64_t, std::vector<LaunchT *>>> byStream;
    for (auto &procedure : stage->procedures)
      for (auto &instruction : procedure->instructions) {
        LaunchT *launch = instruction->body.AsLaunch();
        if (!launch || needed[launch->kernel] == 0)
          continue;
        auto &[bytes, launches] = byStream[instruction->stream];
        bytes = std::max(bytes, needed[launch->kernel]);
        launches.push_back(launch);
      }
    constexpr uint64_t kAlign = 64; // as of all buffers of an arena
    for (auto &[stream, region] : byStream) {
      uint64_t at = (stage->arena_bytes + kAlign - 1) / kAlign * kAlign;
      for (LaunchT *launch : region.second) {
        auto operand = std::make_unique<OperandT>();
        operand->buffer = std::make_unique<BufferRefT>();
        operand->buffer->offset = at;
        operand->buffer->size = needed[launch->kernel];
        operand->access = Access::Write;
        launch->operands.push_back(std::move(operand));
      }
      stage->arena_bytes = at + (region.first + kAlign - 1) / kAlign * kAlign;
    }
  }
  if (!images.empty())
    updateLiveBytes(program);
}

uint64_t planfile::blocksFor(const DeviceKernelT &kernel, uint64_t rows,
                             uint64_t multiprocessors) {
  uint64_t points = rows * kernel.points_per_row;
  uint64_t useful = points / kernel.points_per_block + (points % kernel.points_per_block != 0);
  return std::clamp<uint64_t>(useful, 1, std::max<uint64_t>(1, kernel.blocks_per_sm * multiprocessors));
}

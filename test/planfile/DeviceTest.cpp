// Sections of kernels for devices: what is written is read, what is broken is refused.
#include "lib/planfile/Device.h"
#include "lib/planfile/Check.h"
#include "lib/report/DeviceReport.h"
#include "test/planfile/PlanBuilder.h"
#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::planfile;
using namespace llmc::test;
using nlohmann::json;

namespace {

// Every kernel of `program` but the last, which is refused.
DeviceImageT makeImage(const ProgramT &program) {
  DeviceImageT image;
  image.chip = "sm_90";
  image.assembler = "ptxas 13.0.88";
  for (uint32_t i = 0; i + 1 < program.kernels.size(); ++i) {
    auto kernel = std::make_unique<DeviceKernelT>();
    kernel->kernel = i;
    kernel->entry = program.kernels[i]->name;
    kernel->threads = 128;
    kernel->points_per_row = 3;
    kernel->points_per_block = 10;
    kernel->blocks_per_sm = 4;
    kernel->begin_multiple = 1;
    kernel->registers = 30 + i;
    kernel->buffers.push_back(std::make_unique<DeviceBufferT>());
    kernel->buffers.back()->access = 16;
    kernel->accesses.push_back(std::make_unique<DeviceAccessT>());
    kernel->accesses.back()->bytes = 16;
    kernel->accesses.back()->loads = 2;
    image.kernels.push_back(std::move(kernel));
  }
  image.refusals.push_back(std::make_unique<DeviceRefusalT>());
  image.refusals.back()->kernel = static_cast<uint32_t>(program.kernels.size() - 1);
  image.refusals.back()->reason = "a library does it";
  image.cubin = {1, 2, 3};
  return image;
}

// Returns the error for an image that `edit` changed; empty if there is none.
template <class Edit>
std::string refusal(Edit edit) {
  ProgramT program = makePlan({.exchange = true});
  DeviceImageT image = makeImage(program);
  edit(image);
  auto read = readDeviceImage(writeDeviceImage(image), program);
  return read ? "" : read.message();
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST(Device, RoundTrip) {
  ProgramT program = makePlan({.exchange = true});
  EXPECT_TRUE(program.kernels.size() >= 2);
  auto read = readDeviceImage(writeDeviceImage(makeImage(program)), program);
  EXPECT_TRUE(bool(read));
  if (!read)
    return;
  EXPECT_EQ((*read)->chip, std::string("sm_90"));
  EXPECT_TRUE((*read)->cubin == (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ((*read)->kernels.size(), program.kernels.size() - 1);
  std::vector<std::unique_ptr<DeviceImageT>> images;
  images.push_back(std::move(*read));
  json j = report::deviceJson(program, images);
  EXPECT_EQ(j[0]["status"], json("assembled, never run"));
  EXPECT_EQ(j[0]["kernels"][0]["registers"], json(30));
  EXPECT_EQ(j[0]["kernels"][0]["loads"], (json{{"16", 2}}));
  EXPECT_EQ(j[0]["kernels"][0]["stores"], json(json::object()));
  EXPECT_EQ(j[0]["not_emitted"][0]["reason"], json("a library does it"));
  std::string text = report::deviceText(program, images);
  EXPECT_TRUE(contains(text, "cuda kernels for sm_90: assembled, never run"));
  EXPECT_TRUE(contains(text, "16 B x 2"));
  EXPECT_TRUE(contains(text, "a library does it"));
}

TEST(Device, Refusals) {
  EXPECT_EQ(refusal([](DeviceImageT &) {}), std::string());
  EXPECT_TRUE(contains(refusal([](DeviceImageT &i) { i.version = 9; }), "version 9"));
  EXPECT_TRUE(
      contains(refusal([](DeviceImageT &i) { i.kernels[0]->kernel = 1000; }), "is not there"));
  EXPECT_TRUE(contains(refusal([](DeviceImageT &i) { i.refusals[0]->kernel = 0; }), "or has one"));
  EXPECT_TRUE(contains(refusal([](DeviceImageT &i) { i.refusals.clear(); }), "nothing is said of"));
  EXPECT_TRUE(contains(refusal([](DeviceImageT &i) { i.kernels[0]->threads = 0; }), "0 threads"));
  EXPECT_TRUE(
      contains(refusal([](DeviceImageT &i) { i.kernels[0]->threads = 2048; }), "2048 threads"));
  EXPECT_TRUE(contains(refusal([](DeviceImageT &i) { i.kernels[0]->points_per_block = 0; }),
                       "cannot be launched"));
  EXPECT_TRUE(contains(refusal([](DeviceImageT &i) { i.kernels[0]->begin_multiple = 0; }),
                       "cannot be launched"));
  EXPECT_TRUE(contains(
      refusal([](DeviceImageT &i) { i.kernels[0]->buffers[0]->dtype = static_cast<DType>(99); }),
      "unknown type"));
}

// Cut anywhere, or with any byte changed, an image is read or refused; never a crash.
TEST(Device, Damage) {
  ProgramT program = makePlan({.exchange = true});
  std::string bytes = writeDeviceImage(makeImage(program));
  for (size_t size = 0; size < bytes.size(); ++size)
    if (auto read = readDeviceImage(std::string_view(bytes).substr(0, size), program))
      EXPECT_EQ((*read)->kernels.size(), program.kernels.size() - 1);
  EXPECT_TRUE(!readDeviceImage("", program));
  EXPECT_TRUE(!readDeviceImage(std::string(100, '\x10'), program));
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int bit : {0, 3, 7}) {
      std::string changed = bytes;
      changed[at] ^= char(1 << bit);
      (void)bool(readDeviceImage(changed, program));
    }
}

TEST(Device, Blocks) {
  DeviceKernelT kernel;
  kernel.points_per_row = 3;
  kernel.points_per_block = 10;
  kernel.blocks_per_sm = 4;
  EXPECT_EQ(blocksFor(kernel, 0, 100), uint64_t(1));
  EXPECT_EQ(blocksFor(kernel, 3, 100), uint64_t(1));
  EXPECT_EQ(blocksFor(kernel, 4, 100), uint64_t(2));
  EXPECT_EQ(blocksFor(kernel, 1000, 100), uint64_t(300));
  EXPECT_EQ(blocksFor(kernel, 1000, 10), uint64_t(40));
}

// Launches of a kernel that needs scratch get an operand for it, which the checkers see.
TEST(Device, ScratchIsReserved) {
  ProgramT program = makePlan({.exchange = true});
  std::vector<DeviceImageT> images;
  images.push_back(makeImage(program));
  images.push_back(makeImage(program));
  images[0].kernels[0]->scratch_bytes = 1040;
  images[1].kernels[0]->scratch_bytes = 2064; // another chip has more threads
  uint64_t before = program.stages[0]->arena_bytes;
  size_t operands = 0, after = 0;
  auto count = [&](size_t &number) {
    for (const auto &stage : program.stages)
      for (const auto &procedure : stage->procedures)
        for (const auto &inst : procedure->instructions)
          if (const LaunchT *launch = inst->body.AsLaunch(); launch && launch->kernel == 0)
            number += launch->operands.size();
  };
  count(operands);
  reserveScratch(program, images);
  count(after);
  EXPECT_TRUE(after > operands);
  EXPECT_TRUE(program.stages[0]->arena_bytes >= before + 2064);
  std::vector<Finding> findings = checkAll(program);
  EXPECT_TRUE(findings.empty()) << formatFindings(findings);

  // Another stream at the same bytes, with nothing between them.
  LaunchT *launch = nullptr;
  for (auto &inst : procedureOf(program, 0, ProcedureKind::Forward).instructions)
    if (inst->body.AsLaunch() && inst->body.AsLaunch()->kernel == 0)
      launch = inst->body.AsLaunch();
  auto made = std::make_unique<InstructionT>();
  FillT fill;
  fill.dst = std::make_unique<BufferRefT>(*launch->operands.back()->buffer);
  made->stream = Reduce;
  made->body.Set(std::move(fill));
  auto &list = procedureOf(program, 0, ProcedureKind::Forward).instructions;
  list.push_back(std::move(made));
  EXPECT_TRUE(!checkHappensBefore(program).empty());

  EXPECT_TRUE(
      contains(refusal([](DeviceImageT &image) { image.kernels[0]->scratch_bytes = 1 << 30; }),
               "cannot be launched"));
}

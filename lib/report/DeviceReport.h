// Reports kernels for devices, for people and scripts: what the assembler measured of them.
// Tests: test/planfile/DeviceTest.cpp.
#ifndef LLMC_LIB_REPORT_DEVICEREPORT_H
#define LLMC_LIB_REPORT_DEVICEREPORT_H

#include "lib/planfile/Device.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>

namespace llmc::report {

using DeviceImages = std::span<const std::unique_ptr<planfile::DeviceImageT>>;

// Marks every kernel for a device until one has run it.
inline constexpr std::string_view kNeverRun = "assembled, never run";

// Returns [{chip, assembler, status, cubin_bytes, kernels, not_emitted}], where kernels are
// {name, threads, registers, stack, spill_stores, spill_loads, shared, buffers, loads, stores}.
// Buffers are {dtype, access, streaming}, access the bytes of the widest one; loads and stores
// map bytes of an access to the number of instructions; not_emitted are {name, reason}. Sizes are
// in bytes.
nlohmann::json deviceJson(const planfile::ProgramT &program, DeviceImages images);

// Formats the same as tables; empty without images.
std::string deviceText(const planfile::ProgramT &program, DeviceImages images);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_DEVICEREPORT_H

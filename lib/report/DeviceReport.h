// Kernels for devices, for people and scripts: what the assembler said of them.
#ifndef LLMC_LIB_REPORT_DEVICEREPORT_H
#define LLMC_LIB_REPORT_DEVICEREPORT_H

#include "lib/planfile/Device.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>

namespace llmc::report {

using DeviceImages = std::span<const std::unique_ptr<planfile::DeviceImageT>>;

// What is true of every kernel for a device until a card has run it.
inline constexpr std::string_view kNeverRun = "assembled, never run";

// [{chip, assembler, status, cubin_bytes, kernels, not_emitted}], where kernels are
// {name, threads, registers, stack, spill_stores, spill_loads, shared, buffers, loads, stores}.
// Buffers are {dtype, access, streaming}, access the bytes of the widest one; loads
// and stores map bytes of an access to the number of instructions; not_emitted are {name,
// reason}. Sizes in bytes.
nlohmann::json deviceJson(const planfile::ProgramT &program, DeviceImages images);

// The same as tables; empty without images.
std::string deviceText(const planfile::ProgramT &program, DeviceImages images);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_DEVICEREPORT_H

#include "lib/report/DeviceReport.h"

#include "lib/support/Error.h"

#include <iomanip>
#include <map>

using nlohmann::json;
using namespace llmc;
using namespace llmc::planfile;

namespace {

json describeKernel(const ProgramT &program, const DeviceKernelT &kernel) {
  json loads = json::object(), stores = json::object();
  for (const auto &access : kernel.accesses) {
    if (access->loads)
      loads[std::to_string(access->bytes)] = access->loads;
    if (access->stores)
      stores[std::to_string(access->bytes)] = access->stores;
  }
  json buffers = json::array();
  for (const auto &buffer : kernel.buffers)
    buffers.push_back({{"dtype", numpyName(buffer->dtype)},
                       {"access", buffer->access},
                       {"streaming", buffer->streaming}});
  return {{"name", program.kernels[kernel.kernel]->name},
          {"threads", kernel.threads},
          {"registers", kernel.registers},
          {"stack", kernel.stack},
          {"spill_stores", kernel.spill_stores},
          {"spill_loads", kernel.spill_loads},
          {"shared", kernel.shared},
          {"buffers", std::move(buffers)},
          {"loads", std::move(loads)},
          {"stores", std::move(stores)}};
}

// Formats all accesses of a kernel, the widest first: "16 B x 4, 4 B x 1".
std::string accessText(const DeviceKernelT &kernel) {
  std::map<uint32_t, uint32_t, std::greater<>> counts;
  for (const auto &access : kernel.accesses)
    counts[access->bytes] += access->loads + access->stores;
  std::string text;
  for (auto [bytes, count] : counts)
    text += support::text(text.empty() ? "" : ", ", bytes, " B x ", count);
  return text;
}

} // namespace

json report::deviceJson(const ProgramT &program, DeviceImages images) {
  json list = json::array();
  for (const auto &image : images) {
    json kernels = json::array(), refused = json::array();
    for (const auto &kernel : image->kernels)
      kernels.push_back(describeKernel(program, *kernel));
    for (const auto &refusal : image->refusals)
      refused.push_back(
          {{"name", program.kernels[refusal->kernel]->name}, {"reason", refusal->reason}});
    list.push_back({{"chip", image->chip},
                    {"assembler", image->assembler},
                    {"status", kNeverRun},
                    {"cubin_bytes", image->cubin.size()},
                    {"kernels", std::move(kernels)},
                    {"not_emitted", std::move(refused)}});
  }
  return list;
}

std::string report::deviceText(const ProgramT &program, DeviceImages images) {
  std::ostringstream out;
  for (const auto &image : images) {
    out << "\ncuda kernels for " << image->chip << ": " << kNeverRun << " ("
        << image->kernels.size() << " of " << program.kernels.size() << ", "
        << image->cubin.size() << " bytes, by " << image->assembler << ")\n"
        << "  threads  registers  spills  shared  kernel, its accesses to global memory\n";
    for (const auto &kernel : image->kernels)
      out << "  " << std::setw(7) << kernel->threads << std::setw(11) << kernel->registers
          << std::setw(8) << kernel->spill_stores + kernel->spill_loads << std::setw(8)
          << kernel->shared << "  "
          << program.kernels[kernel->kernel]->name << ": " << accessText(*kernel) << "\n";
    for (const auto &refusal : image->refusals)
      out << "  not emitted: " << program.kernels[refusal->kernel]->name << ": "
          << refusal->reason << "\n";
  }
  return out.str();
}

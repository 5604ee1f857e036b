#include "runtime/infer/InferenceOutputs.h"

#include "lib/planfile/Elements.h"
#include "lib/support/Npy.h"
#include "lib/support/OutputFile.h"
#include "runtime/plan/Shard.h"

#include <cstring>
#include <set>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::OutputBindingT;
using support::error;
using support::ok;
using support::Status;

namespace {

std::string fileNameOf(const std::string &name) {
  std::string file = name;
  for (char &c : file)
    if (c == '/' || static_cast<unsigned char>(c) < ' ' || c == '\x7f')
      c = '_';
  return file.empty() ? "_" : file;
}

} // namespace

std::vector<OutputFileName> runtime::outputFiles(const planfile::ProgramT &program) {
  std::vector<OutputFileName> outputs;
  std::set<std::string> taken;
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage)
    for (const auto &result : program.stages[stage]->results) {
      std::string file = fileNameOf(result->name);
      while (!taken.insert(file).second)
        file += '_';
      outputs.push_back({stage, result.get(), file + ".npy"});
    }
  return outputs;
}

Status runtime::checkOutputsWritable(const std::string &folder,
                                     const std::vector<OutputFileName> &outputs) {
  if (Status s = support::makeDirectory(folder); !s)
    return error("--output: ", s.message());
  for (const OutputFileName &output : outputs) {
    if (output.result->dtype == DType::BF16)
      return error("the output '", output.result->name, "' has the type ",
                   toString(output.result->dtype), ", which NumPy does not have");
    if (Status s = support::checkWritable(folder + "/" + output.file); !s)
      return error("--output: ", s.message());
  }
  return ok();
}

support::Result<std::vector<std::byte>> runtime::assemble(const Executor &executor,
                                                          const OutputFileName &output) {
  const planfile::ProgramT &program = executor.program();
  const OutputBindingT &result = *output.result;
  uint64_t size = planfile::byteSize(result.dtype);
  uint64_t total = *support::elementCount(result.global_shape), covered = 0;
  std::vector<std::byte> bytes(total * size);
  planfile::ViewT view = denseView(result.global_shape);
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank) {
    std::vector<uint32_t> coordinate = planfile::coordinateOf(*program.mesh, rank);
    if (executor.stageOfRank(rank) != output.stage ||
        !isFirstHolder(result.dims, program.stage_axis, coordinate))
      continue;
    const std::byte *from = executor.arena(rank) + result.buffer->offset;
    forEachRun(Shard(result, *program.mesh, coordinate), view,
               [&](int64_t local, int64_t first, int64_t count, int64_t) {
                 covered += static_cast<uint64_t>(count);
                 std::memcpy(&bytes[first * size], from + local * size, count * size);
               });
  }
  if (covered != total)
    return error("output '", result.name, "': the ranks hold ", covered, " elements of ", total);
  return bytes;
}

Status runtime::writeOutputs(const Executor &executor, const std::string &folder,
                             const std::vector<OutputFileName> &outputs) {
  for (const OutputFileName &output : outputs) {
    support::Result<std::vector<std::byte>> bytes = assemble(executor, output);
    if (!bytes)
      return bytes.takeError();
    if (Status s = support::writeNpy(folder + "/" + output.file, planfile::elementType(output.result->dtype),
                                     output.result->global_shape, *bytes);
        !s)
      return s;
  }
  return ok();
}

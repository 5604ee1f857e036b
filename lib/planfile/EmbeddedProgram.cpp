#include "lib/planfile/EmbeddedProgram.h"

using namespace llmc;
using namespace llmc::planfile;
using support::error;

support::Result<EmbeddedProgram> planfile::openEmbeddedProgram(const std::string &path) {
  auto payload = Payload::open(path);
  if (!payload)
    return payload.takeError();
  auto plan = payload->section(kPlanSection);
  if (!plan)
    return error("'", path, "': ", plan.message());
  auto program = readProgram(*plan);
  if (!program)
    return error("'", path, "': ", program.message());
  return EmbeddedProgram{std::make_unique<Payload>(std::move(*payload)), std::move(*program)};
}

#include "lib/planfile/EmbeddedProgram.h"

#include "lib/planfile/Retry.h"

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
  EmbeddedProgram carried{std::make_unique<Payload>(std::move(*payload)), std::move(*program), nullptr};
  auto retry = readRetry(*carried.payload);
  if (!retry)
    return error("'", path, "': ", retry.message());
  carried.retry = std::move(*retry);
  if (carried.retry)
    if (support::Status s = checkRetry(*carried.program, *carried.retry); !s)
      return error("'", path, "': ", s.message());
  return carried;
}

#include "runtime/cpu/InstructionName.h"

#include "lib/planfile/AxisNames.h"

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using support::text;

std::string runtime::nameOf(const planfile::ProgramT &program, const StageProgram &stage, const Op &op,
                            bool byLibrary) {
  auto along = [&](std::string_view what, uint32_t axis, int32_t delta) {
    return text(what, " ", planfile::joinedUserNames(*program.mesh, {axis}), delta > 0 ? " +" : " ",
                delta);
  };
  const auto index = static_cast<uint32_t>(&op - stage.ops.data());
  switch (op.kind) {
  case Body::Launch:
    return program.kernels[op.index]->name;
  case Body::Matmul: {
    const planfile::MatmulT &m = *stage.matmuls[op.index];
    return text(m.routing ? "grouped matmul " : "matmul ", m.batch, " x ", m.m, " x ", m.n, " x ", m.k,
                m.accumulate ? " accumulate" : "", byLibrary ? "" : " (own kernel)");
  }
  case Body::Collective: {
    const planfile::CollectiveT &c = *stage.collectives[op.index];
    return text(toString(c.kind), " ", planfile::joinedUserNames(*program.mesh, c.axes, " "));
  }
  case Body::Send: {
    const planfile::SendT &send = *stage.instructionOf(index).body.AsSend();
    return along("send", send.axis, send.delta);
  }
  case Body::Recv: {
    const planfile::RecvT &recv = *stage.instructionOf(index).body.AsRecv();
    return along("recv", recv.axis, recv.delta);
  }
  default:
    return std::string(toString(op.kind));
  }
}

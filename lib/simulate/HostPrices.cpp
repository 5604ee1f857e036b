#include "lib/simulate/HostPrices.h"

#include "lib/planfile/Program.h"
#include "runtime/cpu/KernelRunner.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::simulate;
using planfile::Body;
using planfile::CollectiveKind;
using runtime::Op;
using runtime::StageProgram;

namespace {

Work workOfLaunch(const planfile::ProgramT &program, const StageProgram &stage, const Op &op,
                  const cost::HostMachine &host, unsigned threads) {
  Work work;
  work.kind = Work::Launch;
  double bytes = 0;
  for (uint32_t i = 0; i < op.buffers; ++i)
    bytes += double(stage.buffers[op.firstBuffer + i].size);
  work.isShared = threads > 1 && op.rows >= 2 && bytes >= runtime::kLeastSharedBytes;
  (bytes <= host.nearBytes ? work.nearBytes : work.farBytes) = bytes;
  const planfile::LaunchT &launch = *stage.instructionOf(uint32_t(&op - stage.ops.data())).body.AsLaunch();
  const planfile::KernelT &kernel = *program.kernels[op.index];
  if (launch.attention)
    (launch.attention->backward ? work.attentionGradFlops : work.attentionFlops) = launch.flops;
  else if (size_t version = host.kernels == "avx512"; version < kernel.instructions.size())
    work.instructions = kernel.instructions[version] * double(op.rows);
  return work;
}

Work workOfProduct(const planfile::ProgramT &program, const planfile::MatmulT &m, const cost::HostRates &rates) {
  Work work;
  work.flops = 2.0 * double(m.batch) * double(m.m) * double(m.n) * double(m.k);
  bool aTurned = m.a_strides[2] != 1 && m.k > 1, bTurned = m.b_strides[2] != 1 && m.n > 1;
  work.product = std::string(toString(m.a_type)) + (aTurned ? " t" : " n") + (bTurned ? "t" : "n");
  work.batch = double(m.batch), work.rows = double(m.m), work.columns = double(m.n), work.depth = double(m.k);
  work.kind = rates.products.count(work.product) ? Work::Product : Work::OwnProduct;
  if (!m.routing)
    return work;
  // Shares rows evenly among experts: what a router chooses is not known.
  // Leaves out room that rows of other ranks may need and, on average, do not.
  double experts = std::max(1.0, double(m.batch)), room = std::max(1.0, program.moe_budget);
  bool ofRows = m.routing->form == planfile::RoutingForm::Rows;
  work.flops = 2.0 * double(m.m) * double(m.n) * double(m.k) / room;
  double routed = double(ofRows ? m.m : m.k) / room;
  (ofRows ? work.rows : work.depth) = routed / experts;
  work.bytes = double(planfile::byteSize(m.a_type)) * routed * double(ofRows ? m.k + m.n : m.m + m.n);
  work.kind = Work::RoutedProduct;
  return work;
}

double membersOf(const planfile::ProgramT &program, const planfile::CollectiveT &c) {
  if (!c.members.empty())
    return double(c.members.size());
  double members = 1;
  for (uint32_t axis : c.axes)
    members *= double(program.mesh->axes[axis]->size);
  return members;
}

// Counts what the transport reads and writes for all members (runtime/transport).
double bytesMoved(const planfile::ProgramT &program, const planfile::CollectiveT &c, double members) {
  double payload = double(planfile::payloadBytes(*program.mesh, c));
  switch (c.kind) {
  case CollectiveKind::AllReduce:
    return 2 * members * payload; // each is read once and written once
  case CollectiveKind::ReduceScatter:
    return (members + 1) * payload;
  case CollectiveKind::AllGather:
    return (members + 1) * payload;
  case CollectiveKind::Broadcast:
    return members * payload;
  default:
    return 2 * members * payload;
  }
}

} // namespace

Work simulate::workOf(const planfile::ProgramT &program, const StageProgram &stage, const Op &op,
                      const cost::HostMachine &host, const cost::HostRates &rates) {
  Work work;
  auto bytes = [&] {
    double sum = 0;
    for (uint32_t i = 0; i < op.buffers; ++i)
      sum += double(stage.buffers[op.firstBuffer + i].size);
    return sum;
  };
  switch (op.kind) {
  case Body::Launch:
    return workOfLaunch(program, stage, op, host, rates.threads);
  case Body::Matmul:
    return workOfProduct(program, *stage.matmuls[op.index], rates);
  case Body::Collective:
    work.kind = Work::Collective;
    work.members = membersOf(program, *stage.collectives[op.index]);
    work.bytes = bytesMoved(program, *stage.collectives[op.index], work.members);
    return work;
  case Body::Send:
  case Body::Recv:
    work.kind = Work::Message;
    work.bytes = bytes();
    return work;
  case Body::Copy:
  case Body::Fill:
  case Body::Feed:
    work.kind = Work::Copy;
    work.bytes = bytes();
    return work;
  default:
    return work;
  }
}

double simulate::gridTimeOf(const Work &work, const cost::HostRates &rates) {
  return work.batch * rates.products.at(work.product).timeOf(work.rows, work.columns, work.depth);
}

double simulate::timeOf(const Work &work, const cost::HostRates &rates) {
  switch (work.kind) {
  case Work::Launch:
    return rates.launch + (work.isShared ? rates.shared : 0) + rates.instruction * work.instructions + rates.nearByte * work.nearBytes +
           rates.farByte * work.farBytes + rates.attentionFlop * work.attentionFlops +
           rates.attentionGradFlop * work.attentionGradFlops;
  case Work::Product:
    return rates.product + rates.productScale * gridTimeOf(work, rates);
  case Work::OwnProduct:
    return rates.launch + rates.ownFlop * work.flops;
  case Work::RoutedProduct: {
    bool byLibrary = rates.products.count(work.product);
    double products = byLibrary ? rates.routedScale * gridTimeOf(work, rates) : rates.ownFlop * work.flops;
    return rates.routedExpert * work.batch + products + rates.routedByte * work.bytes;
  }
  case Work::Copy:
    return rates.copy + rates.copyByte * work.bytes;
  case Work::Collective:
    return rates.collective + rates.collectiveByte * work.bytes;
  case Work::Message:
    return rates.message + rates.messageByte * work.bytes;
  case Work::Issue:
    break;
  }
  return 0;
}

double HostPrices::price(const StageProgram &stage, const Op &op) const {
  auto [at, isNew] = known_.try_emplace(&op, 0);
  if (isNew)
    at->second = timeOf(workOf(program_, stage, op, host_, rates_), rates_);
  return at->second;
}

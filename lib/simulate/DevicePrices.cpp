#include "lib/simulate/DevicePrices.h"

#include "lib/cost/Collectives.h"
#include "lib/planfile/Program.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::simulate;
using planfile::Body;
using planfile::CollectiveKind;
using planfile::DType;
using runtime::Op;
using runtime::StageProgram;

namespace {

// Returns the type of the program's largest products.
cost::Number precisionOf(const planfile::ProgramT &program) {
  double most = -1;
  DType type = DType::F32;
  for (const auto &stage : program.stages)
    for (const auto &procedure : stage->procedures)
      for (const auto &instruction : procedure->instructions)
        if (const planfile::MatmulT *m = instruction->body.AsMatmul())
          if (double flops = double(m->m) * double(m->n) * double(m->k); flops > most) {
            most = flops;
            type = m->a_type;
          }
  return type == DType::BF16 ? cost::Number::Bf16 : type == DType::F16 ? cost::Number::Fp16 : cost::Number::Fp32;
}

// Returns how many ranks lie between two neighbours of a group: the step of its fastest axis.
int64_t strideOf(const planfile::MeshT &mesh, const std::vector<uint32_t> &axes) {
  int64_t stride = 1;
  uint32_t fastest = axes.empty() ? 0 : *std::max_element(axes.begin(), axes.end());
  for (uint32_t axis = fastest + 1; axis < mesh.axes.size(); ++axis)
    stride *= int64_t(mesh.axes[axis]->size);
  return stride;
}

cost::Transfer transferOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return cost::Transfer::AllReduce;
  case CollectiveKind::ReduceScatter:
    return cost::Transfer::ReduceScatter;
  case CollectiveKind::AllToAll:
  case CollectiveKind::ExchangeRows:
    return cost::Transfer::AllToAll;
  default:
    return cost::Transfer::AllGather;
  }
}

double bytesOf(const StageProgram &stage, const Op &op) {
  double bytes = 0;
  for (uint32_t i = 0; i < op.buffers; ++i)
    bytes += double(stage.buffers[op.firstBuffer + i].size);
  return bytes;
}

} // namespace

DevicePrices::DevicePrices(const planfile::ProgramT &program, cost::Machine machine)
    : program_(program), machine_(std::move(machine)) {
  machine_.choices.precision = precisionOf(program);
  pace_ = machine_.pace(double(planfile::rankCount(*program.mesh)));
}

double DevicePrices::compute(const StageProgram &stage, const Op &op) const { return pace_ * alone(stage, op); }

double DevicePrices::alone(const StageProgram &stage, const Op &op) const {
  switch (op.kind) {
  case Body::Launch:
    return launch(stage, op);
  case Body::Matmul: {
    const planfile::MatmulT *matmul = stage.matmuls[op.index];
    auto [at, isNew] = products_.try_emplace(matmul, 0);
    if (isNew)
      at->second = product(*matmul);
    return at->second;
  }
  default:
    return cost::elementwiseTime(machine_, bytesOf(stage, op), 1);
  }
}

double DevicePrices::product(const planfile::MatmulT &m) const {
  cost::Product product{double(m.m), double(m.n), double(m.k), double(m.batch)};
  if (m.routing) {
    // Shares rows evenly among experts, since what a router chooses is not known, and leaves out the room that stays empty.
    bool ofRows = m.routing->form == planfile::RoutingForm::Rows;
    product.batch = 1;
    product.experts = std::max<int64_t>(1, m.batch);
    (ofRows ? product.rows : product.depth) /= std::max(1.0, program_.moe_budget);
    if (!ofRows) { // each expert has its own terms
      product.rows *= double(product.experts);
      product.depth /= double(product.experts);
    }
  }
  product.resultBytes = double(planfile::byteSize(m.c_type)) * (m.accumulate ? 2 : 1);
  return cost::timeOf(machine_, product);
}

// Prices what is no attention by the bytes of its operands.
double DevicePrices::launch(const StageProgram &stage, const Op &op) const {
  const planfile::LaunchT &launch = *stage.instructionOf(uint32_t(&op - stage.ops.data())).body.AsLaunch();
  if (const auto &a = launch.attention) {
    cost::Attention attention{double(a->batch),    double(a->queries),  double(a->keys),      double(a->heads),
                              double(a->kv_heads), double(a->head_dim), double(a->value_dim), double(a->window),
                              a->causal};
    attention.backward = a->backward;
    attention.seen = 1;
    attention.seen = launch.flops / attention.flops();
    return cost::timeOf(machine_, attention);
  }
  return cost::elementwiseTime(machine_, bytesOf(stage, op), 1);
}

double DevicePrices::collective(const StageProgram &stage, const Op &op) const {
  const planfile::CollectiveT &c = *stage.collectives[op.index];
  int64_t size = 1;
  for (uint32_t axis : c.axes)
    size *= int64_t(program_.mesh->axes[axis]->size);
  if (!c.members.empty())
    size = int64_t(c.members.size());
  // Moves as many rows as there are: what one of both buffers has room for beyond the other stays empty on average.
  double bytes = double(planfile::payloadBytes(*program_.mesh, c));
  if (c.kind == CollectiveKind::ExchangeRows)
    bytes = double(std::min(c.src->size, c.dst->size));
  cost::Collective collective{transferOf(c.kind), cost::Role::Data, {size, strideOf(*program_.mesh, c.axes)}, bytes};
  return pace_ * cost::timeOf(machine_, collective);
}

double DevicePrices::message(const StageProgram &stage, const Op &op) const {
  planfile::Message message = *planfile::messageOf(stage.instructionOf(uint32_t(&op - stage.ops.data())));
  return pace_ * cost::messageTime(machine_, strideOf(*program_.mesh, {message.axis}), bytesOf(stage, op));
}

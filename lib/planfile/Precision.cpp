#include "lib/planfile/Precision.h"

#include "lib/planfile/AxisNames.h"

using namespace llmc;
using namespace llmc::planfile;

// Returns the type of the first state of a role that belongs to a tensor of the model.
static DType typeOf(const ProgramT &program, StateRole role) {
  for (const auto &stage : program.stages)
    for (const auto &state : stage->states)
      if (state->role == role && viewOf(*stage, *state))
        return state->dtype;
  return DType::F32;
}

std::string planfile::typeName(DType type) {
  return type == DType::F32   ? "fp32"
         : type == DType::F16 ? "fp16"
                              : std::string(toString(type));
}

std::optional<DType> planfile::reductionType(const ProgramT &program, const StageT &stage) {
  for (const auto &procedure : stage.procedures)
    for (const auto &inst : procedure->instructions)
      if (const CollectiveT *sum = inst->body.AsCollective();
          sum && procedure->kind != ProcedureKind::Forward &&
          (sum->kind == CollectiveKind::AllReduce || sum->kind == CollectiveKind::ReduceScatter) &&
          program.origins[inst->origin]->tactic != "context" &&
          areOverReplicas(*program.mesh, sum->axes) && sum->src->size > byteSize(sum->dtype))
        return sum->dtype; // A single number is the loss, the count of tokens or a norm.
  return std::nullopt;
}

// Tells the type in which data-parallel ranks add gradients, where it is not that of their sums.
static std::string reductionNote(const ProgramT &program, DType gradients) {
  for (const auto &stage : program.stages)
    if (std::optional<DType> type = reductionType(program, *stage))
      return *type == gradients ? "" : "; " + typeName(*type) + ": gradients between ranks";
  return "";
}

std::string planfile::precisionNote(const ProgramT &program) {
  DType weights = typeOf(program, StateRole::Parameter);
  if (weights != DType::BF16 && weights != DType::F16)
    return typeName(weights) + reductionNote(program, typeOf(program, StateRole::Accumulator));
  std::string low = typeName(weights) + ": weights, activations, messages";
  if (program.mode == Mode::Infer)
    return low + "; fp32: norms, softmax, results";
  DType gradients = typeOf(program, StateRole::Accumulator);
  std::string full = "; fp32: masters, moments, ";
  if (gradients == DType::F32)
    full += "gradients, ";
  else if (gradients == weights)
    low += ", gradients";
  else
    low += "; " + typeName(gradients) + ": gradients";
  return low + full + "norms, softmax, loss" + reductionNote(program, gradients);
}

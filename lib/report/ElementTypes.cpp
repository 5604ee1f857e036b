#include "lib/report/ElementTypes.h"

#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Precision.h"
#include "lib/report/Traffic.h"

#include <algorithm>
#include <set>

namespace llmc::report {
using namespace planfile;
namespace {

// Collects types by role, in the order of the header.
class Collector {
public:
  explicit Collector(const ProgramT &program) : program(program) {}

  TypesByRole run() {
    for (const char *role : {"weights", "masters", "moments", "gradients", "loss", "activations",
                             "statistics", "messages", "tensor_sums", "gradient_sums", "results"})
      list.push_back({role, ""});
    addStates();
    addStatistics();
    forEachInstruction(program, [&](const Site &site, const InstructionT &inst) {
      addProduct(*program.stages[site.stage], inst);
      addMoved(inst);
    });
    std::erase_if(list, [](const auto &entry) { return entry.second.empty(); });
    return std::move(list);
  }

private:
  void add(const std::string &role, DType type) {
    std::string name = typeName(type);
    if (!seen.insert({role, name}).second)
      return;
    for (auto &[other, types] : list)
      if (other == role)
        types += (types.empty() ? "" : ", ") + name;
  }

  void addStates() {
    for (const auto &stage : program.stages) {
      for (const auto &state : stage->states)
        add(roleOf(*stage, *state), state->dtype);
      for (const auto &result : stage->results)
        add("results", result->dtype);
    }
  }
  static std::string roleOf(const StageT &stage, const StateShardT &state) {
    switch (state.role) {
    case StateRole::Parameter:
      return "weights";
    case StateRole::Master:
      return "masters";
    case StateRole::Moment1:
    case StateRole::Moment2:
      return "moments";
    case StateRole::Accumulator:
      break;
    }
    // Sums of a step's own are the loss and the count of tokens, numbers, and whole flat gradients.
    return viewOf(stage, state) || state.local_shape.size() > 0 ? "gradients" : "loss";
  }

  void addStatistics() {
    const std::set<std::string> keepers = {"graph.layer_norm", "graph.rms_norm", "graph.attention"};
    for (const auto &op : program.ops)
      for (size_t i = 1; keepers.count(op->op) && !op->backward && i < op->results.size(); ++i)
        add("statistics", op->results[i]->dtype);
  }
  // Adds the result of a product that reads a parameter in the forward pass.
  void addProduct(const StageT &stage, const InstructionT &inst) {
    const MatmulT *product = inst.body.AsMatmul();
    if (!product || inst.phase != planfile::Phase::Forward)
      return;
    for (const auto &state : stage.states) {
      const BufferRefT &held = *state->buffer;
      auto lies = [&](const BufferRefT &ref) {
        return ref.slot_stride == 0 && ref.offset >= held.offset &&
               ref.offset < held.offset + held.size;
      };
      if (state->role == StateRole::Parameter && (lies(*product->a) || lies(*product->b)))
        add("activations", product->c_type);
    }
  }

  void addMoved(const InstructionT &inst) {
    if (inst.body.AsSend()) {
      for (const auto &tensor : program.origins[inst.origin]->tensors)
        add("messages", tensor->dtype);
      return;
    }
    const CollectiveT *collective = inst.body.AsCollective();
    if (!collective)
      return;
    if (program.origins[inst.origin]->tactic == "context")
      return; // Activations go between attention and what stands around it.
    if (areOverReplicas(*program.mesh, collective->axes)) {
      // Gathers move weights; a single number is the square of a norm.
      if (collective->kind != CollectiveKind::AllGather &&
          collective->src->size > byteSize(collective->dtype))
        add("gradient_sums", collective->dtype);
    }
    else if (inst.phase != planfile::Phase::Update && movesProduct(inst))
      add("tensor_sums", collective->dtype);
  }
  // Returns whether a collective adds parts of a product whose inner dimension is cut.
  bool movesProduct(const InstructionT &inst) const {
    return program.origins[inst.origin]->rule == "row cut";
  }

  const ProgramT &program;
  TypesByRole list;
  std::set<std::pair<std::string, std::string>> seen;
};

} // namespace

TypesByRole elementTypesOf(const ProgramT &program) { return Collector(program).run(); }

} // namespace llmc::report

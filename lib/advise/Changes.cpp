#include "lib/advise/Changes.h"

#include "lib/planfile/AxisNames.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::advise;
using planfile::AxisRole;
using report::PlanIndex;
using report::Traffic;

namespace {

// Bounds what is a number of the step itself, which every plan adds up.
constexpr uint64_t kNumberBytes = 64;

// Returns the axes that a collective or message is over. Experts share out ranks of other axes, and name theirs where they
// have any.
std::vector<AxisRole> rolesOf(const PlanIndex &book, const Traffic &t) {
  const planfile::MeshT &mesh = *book.program.mesh;
  if (book.program.origins[t.origin]->tactic == "expert" && sizeOf(mesh, AxisRole::Expert) > 1)
    for (AxisRole role : {AxisRole::Expert, AxisRole::ExpertTensor})
      if (t.axes == axesOf(mesh, role))
        return {role};
  std::vector<AxisRole> roles;
  for (const std::string &name : book.namesOf(t.axes))
    if (auto role = planfile::roleNamed(name))
      roles.push_back(*role);
  return roles;
}

// Returns the ranks along an axis of a model with experts, which matter for their axes alone.
int64_t sizeIn(const CompileOptions &options, AxisRole role) {
  planfile::MeshSizes sizes = options.meshSizes(/*hasExperts=*/true);
  return role == AxisRole::ExpertData ? sizes.ranksOfStage() / (sizes.ep * sizes.etp) : sizes.of(role);
}

std::string flagOf(AxisRole role) { return "--" + std::string(nameOf(role)); }

// Collects changes for one collective or message.
class Changes {
public:
  Changes(const PlanIndex &book, const Traffic &t, const CompileOptions &options)
      : book_(book), t_(t), options_(options), origin_(*book.program.origins[t.origin]) {}

  std::vector<Flags> run() {
    for (AxisRole role : rolesOf(book_, t_))
      addSmaller(role);
    if (origin_.tactic == "tensor" || origin_.tactic == "sequence")
      addTensor();
    if (origin_.tactic == "context")
      add("--cp-kind", nameOf(options_.cpKind == CpKind::Ring ? CpKind::Heads : CpKind::Ring));
    if (origin_.tactic == "data" || origin_.tactic == "state" || origin_.op == "gradients")
      addStates();
    if (t_.isSend)
      addSchedules();
    if (t_.perStep > 1 && options_.globalRows() % (2 * options_.batchRows()) == 0)
      add("--micro-batch", std::to_string(2 * options_.microBatch));
    return std::move(list_);
  }

private:
  void add(const std::string &flag, const std::string &value) { list_.push_back({{flag, value}}); }

  // Adds meshes with fewer ranks along one axis, whose factor goes to another one.
  void addSmaller(AxisRole role) {
    int64_t size = sizeIn(options_, role), factor = 2;
    if (size < 2)
      return;
    while (size % factor)
      ++factor;
    std::string smaller = std::to_string(size / factor);
    if (role == AxisRole::Expert || role == AxisRole::ExpertTensor)
      return add(flagOf(role), smaller);
    for (AxisRole other : planfile::kDenseRoles)
      if (other != role && role != AxisRole::ExpertData)
        list_.push_back({{flagOf(role), smaller}, {flagOf(other), std::to_string(sizeIn(options_, other) * factor)}});
  }

  void addTensor() {
    bool isCut = options_.cutsSequence(book_.program.model->sequence);
    if (t_.bytes > kNumberBytes && options_.tp > 1)
      add("--sequence-parallel", isCut ? "off" : "on");
    if (origin_.recomputed)
      add("--recompute", "none");
  }

  void addStates() {
    for (int zero = 0; zero <= 3; ++zero)
      if (zero != options_.zeroStage())
        add("--zero", std::to_string(zero));
    Precision low = options_.precision == Precision::Fp16 ? Precision::Fp16 : Precision::Bf16;
    if (options_.gradDtype == Precision::Fp32)
      add("--grad-dtype", nameOf(low));
    if (options_.reduceDtype.value_or(options_.gradDtype) == Precision::Fp32)
      add("--reduce-dtype", nameOf(low));
  }

  void addSchedules() {
    int64_t chunks = options_.chunks();
    if (options_.scheduleKind() != Schedule::ZeroBubble)
      list_.push_back({{"--schedule", "zero-bubble"}, {"--virtual-stages", "1"}});
    if (options_.scheduleKind() != Schedule::OneFOneB)
      list_.push_back({{"--schedule", "1f1b"}, {"--virtual-stages", "1"}});
    if (chunks % 2 == 0 && chunks > 2)
      list_.push_back({{"--virtual-stages", std::to_string(chunks / 2)}, {"--schedule", "interleaved"}});
    list_.push_back({{"--virtual-stages", std::to_string(chunks * 2)}, {"--schedule", "interleaved"}});
  }

  const PlanIndex &book_;
  const Traffic &t_;
  const CompileOptions &options_;
  const planfile::OriginT &origin_;
  std::vector<Flags> list_;
};

// Returns whether a plan of this stage of ZeRO moves states or gradients so.
bool isOfZero(int zero, const Traffic &t) {
  if (t.phase == planfile::Phase::Update)
    return t.kind == "all_gather" && (zero == 1 || zero == 2);
  if (t.kind == "all_gather")
    return zero == 3;
  return t.kind == (zero == 0 ? "all_reduce" : "reduce_scatter");
}

// Returns whether all parameters that an origin names are vectors, as those of norms: tp ranks have all of their gradient
// if they have all tokens, which holds of no matrix that each uses a part of.
bool isOfVectors(const PlanIndex &book, const planfile::OriginT &origin) {
  return !origin.nodes.empty() && std::all_of(origin.nodes.begin(), origin.nodes.end(), [&](const std::string &name) {
    const planfile::SourceTensorT *source = book.sourceOf(name);
    return source && source->shape.size() == 1;
  });
}

} // namespace

std::vector<Flags> advise::changesFor(const PlanIndex &book, const Traffic &t, const CompileOptions &options) {
  return t.bytes <= kNumberBytes ? std::vector<Flags>() : Changes(book, t, options).run();
}

bool advise::isRemoved(const PlanIndex &book, const Traffic &t, const CompileOptions &now, const CompileOptions &then) {
  std::vector<AxisRole> roles = rolesOf(book, t);
  if (!roles.empty() && std::all_of(roles.begin(), roles.end(), [&](AxisRole role) { return sizeIn(then, role) == 1; }))
    return true;
  if (t.bytes <= kNumberBytes)
    return false;
  const planfile::OriginT &origin = *book.program.origins[t.origin];
  if (origin.recomputed && then.recompute == Recompute::None)
    return true;
  int64_t tokens = book.program.model->sequence;
  bool wasCut = now.cutsSequence(tokens), isCut = then.cutsSequence(tokens);
  if ((origin.tactic == "tensor" || origin.tactic == "sequence") && wasCut != isCut) {
    // Cuts change what moves activations, and not the numbers that a loss adds up.
    bool isActivation = !origin.tensors.empty() && origin.tensors[0]->shape.size() > 2;
    return wasCut ? t.kind != "all_reduce" || isOfVectors(book, origin) : t.kind == "all_reduce" && isActivation;
  }
  if (origin.tactic == "context" && (t.kind == "shift" || t.kind == "all_to_all"))
    return now.cpKind != then.cpKind;
  if (origin.tactic == "data" || origin.tactic == "state")
    return !isOfZero(then.zeroStage(), t);
  return false;
}

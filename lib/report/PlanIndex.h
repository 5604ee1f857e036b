// Indexes a plan by the names that people have for its parts, and formats these. Tests:
// test/planfile/ExplainTest.cpp.
#ifndef LLMC_LIB_REPORT_PLANINDEX_H
#define LLMC_LIB_REPORT_PLANINDEX_H

#include "lib/report/Text.h"
#include "lib/report/Traffic.h"

#include <map>
#include <optional>

namespace llmc::report {

// Represents an op of the model, and the one of its folded layers that is meant (-1: all or
// none).
struct NamedOp {
  const planfile::OpInfoT *op = nullptr;
  int64_t layer = -1;
};

// Indexes the traffic, ops and sources of a plan, which must outlive it.
class PlanIndex {
public:
  explicit PlanIndex(const planfile::ProgramT &program);

  const planfile::ProgramT &program;
  std::vector<Traffic> traffic;

  // Returns the ops of a node, forward first; empty if none has this name.
  std::vector<NamedOp> opsOf(const std::string &node) const;
  // Returns the source tensor of that name or alias, or null.
  const planfile::SourceTensorT *sourceOf(const std::string &parameter) const;
  // Returns the states of one stage, of any role, whose view is of this parameter's source.
  std::vector<const planfile::StateShardT *> statesOf(uint32_t stage,
                                                      const std::string &parameter) const;
  // Returns whether an instruction has this source node. Some have nodes that no op describes:
  // the step's own.
  bool isInstructionNode(const std::string &name) const;
  // Returns the op whose cut requires a collective, else the first op of its nodes in the same
  // direction; nullopt if the plan describes none or the update runs it.
  std::optional<NamedOp> opRequiring(const Traffic &t) const;
  // Returns all names that `explain` accepts, sorted, for suggestions.
  std::vector<std::string> allNames() const;
  // Returns at most three of allNames(): first those that contain `name`, then by edit distance.
  std::vector<std::string> nearest(const std::string &name) const;

  // Returns users' names for atomic axes; sizeOf() counts the ranks along them.
  std::vector<std::string> namesOf(const std::vector<uint32_t> &axes) const;
  uint64_t sizeOf(const std::vector<uint32_t> &axes) const;
  uint64_t axisSize(uint32_t axis) const { return program.mesh->axes[axis]->size; }
  // Returns the atomic axes of the first of these names.
  std::vector<uint32_t> firstNamed(const std::vector<uint32_t> &axes) const;

  // Describes how a tactic cuts an op, by users' name for the axes.
  struct Cut {
    std::string name;
    std::vector<uint32_t> axes;
    const planfile::AxisCutT *why;
  };
  std::vector<Cut> cutsOf(const planfile::OpInfoT &op) const;

  // Returns the name of a tensor in this layer; empty if it has none.
  static std::string nameIn(const planfile::TensorInfoT &tensor, int64_t layer);
  // Returns the shape of one rank's part of the tensor where it is made (or, with `needed`, where
  // it is needed), rounded up.
  std::vector<int64_t> localShape(const planfile::TensorInfoT &tensor, bool needed = false) const;
  uint64_t localBytes(const planfile::TensorInfoT &tensor, bool needed = false) const;
  bool isCutOver(const planfile::LayoutT *layout, const std::vector<uint32_t> &axes) const;
  // Describes a tensor as {name, dtype, shape, local_shape, bytes, layout, needed}; layouts as
  // "[16/dp, 64, 64/tp], partial sums over pp".
  nlohmann::json describe(const planfile::TensorInfoT &tensor, int64_t layer = -1) const;
  std::string layoutText(const std::vector<int64_t> &shape, const planfile::LayoutT *layout) const;
  std::string axesText(const std::vector<uint32_t> &axes) const;

private:
  std::multimap<std::string, NamedOp> ops;
  std::map<std::string, uint32_t> sources; // by name and aliases: index
};

// Strips the dialect: "graph.matmul" -> "matmul".
std::string shortOp(const std::string &op);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_PLANINDEX_H

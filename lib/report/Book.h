// A plan by the names that people have for its parts, and the words for them.
#ifndef LLMC_LIB_REPORT_BOOK_H
#define LLMC_LIB_REPORT_BOOK_H

#include "lib/report/Text.h"
#include "lib/report/Walk.h"

#include <map>
#include <optional>

namespace llmc::report {

// An op of the model, and which of the layers it stands for is meant (-1: all or none).
struct Named {
  const planfile::OpInfoT *op = nullptr;
  int64_t layer = -1;
};

class Book {
public:
  explicit Book(const planfile::ProgramT &program);

  const planfile::ProgramT &program;
  std::vector<Traffic> traffic;

  // The ops of a node, forward first; empty if none has this name.
  std::vector<Named> opsOf(const std::string &node) const;
  const planfile::SourceTensorT *sourceOf(const std::string &parameter) const;
  // The states of one stage that view this parameter, and those that belong to them.
  std::vector<const planfile::StateShardT *> statesOf(uint32_t stage,
                                                      const std::string &parameter) const;
  // Nodes of instructions that no op describes: the step's own.
  bool isInstructionNode(const std::string &name) const;
  // The op that made a collective needed, if the plan describes one.
  std::optional<Named> causeOf(const Traffic &t) const;
  // All that `explain` takes, for suggestions.
  std::vector<std::string> allNames() const;
  std::vector<std::string> nearest(const std::string &name) const;

  // Names of users for atomic axes, and how many ranks lie along them.
  std::vector<std::string> namesOf(const std::vector<uint32_t> &axes) const;
  uint64_t sizeOf(const std::vector<uint32_t> &axes) const;
  uint64_t axisSize(uint32_t axis) const { return program.mesh->axes[axis]->size; }
  // The axes of the first of these names.
  std::vector<uint32_t> firstNamed(const std::vector<uint32_t> &axes) const;

  // How a tactic cuts an op, by the name that users have for the axes.
  struct Cut {
    std::string name;
    std::vector<uint32_t> axes;
    const planfile::AxisCutT *why;
  };
  std::vector<Cut> cutsOf(const planfile::OpInfoT &op) const;

  // The name of a tensor in this layer; empty if it has none.
  static std::string nameIn(const planfile::TensorInfoT &tensor, int64_t layer);
  // What one rank holds of the tensor as it is made (or as it is needed).
  std::vector<int64_t> localShape(const planfile::TensorInfoT &tensor, bool needed = false) const;
  uint64_t localBytes(const planfile::TensorInfoT &tensor, bool needed = false) const;
  bool isCutOver(const planfile::LayoutT *layout, const std::vector<uint32_t> &axes) const;
  // {name, dtype, shape, local_shape, layout, needed}; layouts as "[16/dp, 64, 64/tp] + sums over pp".
  nlohmann::json describe(const planfile::TensorInfoT &tensor, int64_t layer = -1) const;
  std::string layoutText(const std::vector<int64_t> &shape, const planfile::LayoutT *layout) const;
  std::string axesText(const std::vector<uint32_t> &axes) const;

private:
  std::multimap<std::string, Named> ops;
  std::map<std::string, uint32_t> sources; // aliases too
};

// "graph.matmul" -> "matmul".
std::string shortOp(const std::string &op);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_BOOK_H

#include "lib/page/MeshPicture.h"

#include "lib/planfile/AxisNames.h"
#include "lib/support/Counted.h"

#include <algorithm>
#include <set>

using namespace llmc;
using namespace llmc::page;
using support::OrderedJson;
using support::text;

namespace {

// Returns how many blocks of so many neighbours the group of rank 0 along the axes has ranks in.
uint64_t spanOf(const Subject &subject, const std::vector<uint32_t> &axes, int64_t block) {
  planfile::CollectiveT along;
  along.axes = axes;
  std::set<uint32_t> blocks;
  for (uint32_t rank : planfile::groupOf(*subject.program.mesh, along, 0))
    blocks.insert(rank / uint32_t(std::max<int64_t>(1, block)));
  return blocks.size();
}

bool isOneMachine(const Subject &subject) { return subject.machine.cluster.generation == cost::Generation::Cpu; }

// Returns the neighbours that share a node: all where the ranks are of one process.
int64_t ranksPerNode(const Subject &subject) {
  return isOneMachine(subject) ? planfile::rankCount(*subject.program.mesh) : std::max<int64_t>(1, subject.machine.cluster.gpusPerNode);
}

OrderedJson axisJson(const Subject &subject, planfile::AxisRole role) {
  std::vector<uint32_t> axes = planfile::axesOf(*subject.program.mesh, role);
  uint64_t size = planfile::sizeOf(*subject.program.mesh, axes), nodes = spanOf(subject, axes, ranksPerNode(subject));
  std::string link = linkOf(subject, axes), words;
  if (link == "memory")
    words = "in the memory of one machine";
  else if (nodes == 1)
    words = "inside a node";
  else if (link == "domain")
    words = text("over ", nodes, " nodes of one NVLink domain");
  else
    words = text("over the network between ", nodes, " nodes");
  return {{"name", std::string(planfile::nameOf(role))}, {"size", size}, {"atoms", axes}, {"link", link}, {"nodes", nodes},
          {"text", words}};
}

} // namespace

std::string page::linkOfMessages(const Subject &subject, const std::vector<uint32_t> &axes) {
  if (isOneMachine(subject))
    return "memory";
  planfile::CollectiveT along;
  along.axes = axes;
  std::vector<uint32_t> ranks = planfile::groupOf(*subject.program.mesh, along, 0);
  return ranks.size() < 2 || ranks[1] - ranks[0] < subject.machine.cluster.nvlinkDomain ? "domain" : "network";
}

std::string page::linkOf(const Subject &subject, const std::vector<uint32_t> &axes) {
  if (isOneMachine(subject))
    return "memory";
  int64_t domain = std::max(subject.machine.cluster.nvlinkDomain, ranksPerNode(subject));
  return spanOf(subject, axes, domain) == 1 ? "domain" : "network";
}

OrderedJson page::meshJson(const Subject &subject) {
  const planfile::MeshT &mesh = *subject.program.mesh;
  OrderedJson atoms = OrderedJson::array(), axes = OrderedJson::array();
  for (const auto &axis : mesh.axes)
    atoms.push_back({{"name", axis->name}, {"size", axis->size}});
  for (planfile::AxisRole role : planfile::kAxisRoles)
    if (role != planfile::AxisRole::ExpertData && planfile::sizeOf(mesh, role) > 1)
      axes.push_back(axisJson(subject, role));
  int64_t ranks = planfile::rankCount(mesh), inNode = ranksPerNode(subject);
  return {{"text", planfile::meshText(mesh, " ", " x ")},
          {"ranks", ranks},
          {"nodes", (ranks + inNode - 1) / inNode},
          {"ranks_per_node", inNode},
          {"ranks_per_domain", isOneMachine(subject) ? ranks : std::max(subject.machine.cluster.nvlinkDomain, inNode)},
          {"atoms", std::move(atoms)},
          {"stage_atom", subject.program.stage_axis},
          {"axes", std::move(axes)}};
}

// Translates between the atomic axes of a plan's mesh and the names that users know (AxisRole).
// Tests: test/planfile/MeshAxesTest.cpp.
#ifndef LLMC_LIB_PLANFILE_AXISNAMES_H
#define LLMC_LIB_PLANFILE_AXISNAMES_H

#include "lib/planfile/MeshAxes.h"
#include "lib/planfile/plan_generated.h"

namespace llmc::planfile {

// Returns the atomic axes (indices into mesh.axes, slowest first) of the product or single axis
// called `name`. Empty if there is no such name, or its product has no axes because its size is
// 1.
std::vector<uint32_t> axesNamed(const MeshT &mesh, std::string_view name);
inline std::vector<uint32_t> axesOf(const MeshT &mesh, AxisRole role) {
  return axesNamed(mesh, nameOf(role));
}
// Counts the ranks along `axes`: the product of their sizes.
uint64_t sizeOf(const MeshT &mesh, const std::vector<uint32_t> &axes);
inline uint64_t sizeOf(const MeshT &mesh, AxisRole role) {
  return sizeOf(mesh, axesOf(mesh, role));
}

// Returns whether ranks along one of the axes hold the same parameters and see other tokens: data and
// context axes.
bool areOverReplicas(const MeshT &mesh, const std::vector<uint32_t> &axes);

// Returns users' names for `axes`: the dense roles if these consist of exactly `axes`, else the
// smallest set of names that covers each axis once. Sorted by kAxisRoles, then in the order of
// the plan. Where no names cover them it returns the axes' own; it is empty only if `axes` is.
std::vector<std::string> userNames(const MeshT &mesh, const std::vector<uint32_t> &axes);
// Returns userNames() joined with `separator`: "dp", "ppxtp".
std::string joinedUserNames(const MeshT &mesh, const std::vector<uint32_t> &axes,
                            std::string_view separator = "x");
// Formats the sizes of the mesh as "dp=2 pp=2 tp=2", with `sign` for "=". Data, stages and tensor
// are always listed, other roles only if larger than 1, edp never, and axes without a role under
// their own names.
std::string meshText(const MeshT &mesh, std::string_view sign, std::string_view separator);
// Formats a rank's coordinate over the axes that meshText() lists: "dp 0, pp 1, tp 0".
std::string coordinateText(const MeshT &mesh, const std::vector<uint32_t> &coordinate);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_AXISNAMES_H

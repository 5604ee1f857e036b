// The axes of a plan file by their roles, and by the names that people have for them.
#ifndef LLMC_LIB_PLANFILE_AXISNAMES_H
#define LLMC_LIB_PLANFILE_AXISNAMES_H

#include "lib/planfile/MeshAxes.h"
#include "lib/planfile/plan_generated.h"

namespace llmc::planfile {

// The atomic axes of a named product, slowest first; none if its size is 1. An axis
// is also known by its own name.
std::vector<uint32_t> axesNamed(const MeshT &mesh, std::string_view name);
inline std::vector<uint32_t> axesOf(const MeshT &mesh, AxisRole role) {
  return axesNamed(mesh, nameOf(role));
}
uint64_t sizeOf(const MeshT &mesh, const std::vector<uint32_t> &axes);
inline uint64_t sizeOf(const MeshT &mesh, AxisRole role) { return sizeOf(mesh, axesOf(mesh, role)); }

// What people call these axes: the names of dense work if they spell them, else the
// fewest names that do. In the order of kAxisRoles, then of the plan.
std::vector<std::string> userNames(const MeshT &mesh, const std::vector<uint32_t> &axes);
// The same as one word: "dp", "ppxtp".
std::string joinedUserNames(const MeshT &mesh, const std::vector<uint32_t> &axes,
                            std::string_view separator = "x");
// "dp=2 pp=2 tp=2", with the sign and the separator given: the other roles only where
// their size is not 1, and axes that have no role by their own names.
std::string meshText(const MeshT &mesh, std::string_view sign, std::string_view separator);
// "dp 0, pp 1, tp 0".
std::string coordinateText(const MeshT &mesh, const std::vector<uint32_t> &coordinate);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_AXISNAMES_H

// Defines the roles of mesh axes, and derives the atomic axes that they are products of. Tests:
// test/planfile/MeshAxesTest.cpp.
//
// A mesh is a list of atomic axes. Users name products of them: inside a stage, dp x cp x tp
// ranks do dense work, and the same ranks are edp x ep x etp for experts. The atomic axes are a
// common refinement of both factorizations.
#ifndef LLMC_LIB_PLANFILE_MESHAXES_H
#define LLMC_LIB_PLANFILE_MESHAXES_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::planfile {

// Identifies what an axis is for, in the order of printing. Code asks for a role; only the table
// of names behind nameOf() spells it.
enum class AxisRole : uint8_t { Data, Stages, Tensor, Context, Expert, ExpertTensor, ExpertData };
inline constexpr AxisRole kAxisRoles[] = {
    AxisRole::Data,   AxisRole::Stages,       AxisRole::Tensor,    AxisRole::Context,
    AxisRole::Expert, AxisRole::ExpertTensor, AxisRole::ExpertData};
// Lists the roles of dense work: they share no atomic axis, and their product is the whole mesh.
inline constexpr AxisRole kDenseRoles[] = {AxisRole::Data, AxisRole::Stages, AxisRole::Tensor,
                                           AxisRole::Context};

// Returns the name of a role: "dp", "pp", "tp", "cp", "ep", "etp", "edp".
std::string_view nameOf(AxisRole role);
// Returns the role of that name; nullopt if there is none.
std::optional<AxisRole> roleNamed(std::string_view name);
// Returns all names of roles as one list, "dp, pp, tp, cp, ep, etp, edp".
std::string allRoleNames();

// Holds the sizes as users give them; edp follows from the others if it is 0.
struct MeshSizes {
  int64_t dp = 1, pp = 1, tp = 1, cp = 1, ep = 1, etp = 1, edp = 0;

  int64_t &of(AxisRole role);
  int64_t ranksOfStage() const { return dp * cp * tp; }
};

// Holds the atomic axes, slowest first. Of dense work tp is fastest, then cp, dp, and pp slowest;
// of experts etp, then ep, then edp. Axes of size 1 are left out, except that of the stages.
struct AtomicAxes {
  struct Axis {
    std::string name;
    int64_t size;
  };
  struct Product {
    AxisRole role;
    std::vector<uint32_t> axes; // slowest first; without those that are left out
  };
  std::vector<Axis> axes;
  std::vector<Product> products; // one a role, in the order of kAxisRoles
};

// Returns the common refinement of both factorizations of a stage's ranks. If there is none,
// returns nullopt and appends to `errors` one line for each problem, which names the valid sizes.
std::optional<AtomicAxes> deriveAxes(const MeshSizes &sizes, std::vector<std::string> &errors);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_MESHAXES_H

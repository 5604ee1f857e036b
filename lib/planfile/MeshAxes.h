// What the axes of a mesh are for, and the atomic axes that they are made of.
//
// A mesh is a list of atomic axes. Users name products of them: inside a stage,
// dp x cp x tp ranks do dense work, and the same ranks are edp x ep x etp for
// experts. The atomic axes are what both ways to count are made of.
#ifndef LLMC_LIB_PLANFILE_MESHAXES_H
#define LLMC_LIB_PLANFILE_MESHAXES_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::planfile {

// In the order in which people read them. Code asks for a role; only the
// table of names behind nameOf knows how it is spelled.
enum class AxisRole : uint8_t { Data, Stages, Tensor, Context, Expert, ExpertTensor, ExpertData };
inline constexpr AxisRole kAxisRoles[] = {
    AxisRole::Data,   AxisRole::Stages,       AxisRole::Tensor,    AxisRole::Context,
    AxisRole::Expert, AxisRole::ExpertTensor, AxisRole::ExpertData};
// Those of dense work: they share no axis, and together they have all of them.
inline constexpr AxisRole kDenseRoles[] = {AxisRole::Data, AxisRole::Stages, AxisRole::Tensor,
                                           AxisRole::Context};

// "dp", "pp", "tp", "cp", "ep", "etp", "edp".
std::string_view nameOf(AxisRole role);
std::optional<AxisRole> roleNamed(std::string_view name);
// "dp, pp, tp, cp, ep, etp, edp".
std::string allRoleNames();

// As users give them; edp follows from the others if it is 0.
struct MeshSizes {
  int64_t dp = 1, pp = 1, tp = 1, cp = 1, ep = 1, etp = 1, edp = 0;

  int64_t &of(AxisRole role);
  int64_t ranksOfStage() const { return dp * cp * tp; }
};

// Axes stand slowest first. Of dense work tp is fastest, then cp, dp, and pp slowest;
// of experts etp, then ep, then edp. Axes of size 1 are left out, but not that of the
// stages.
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

// The common refinement of both ways to count the ranks of a stage. Where there is
// none, each line of `errors` is a problem and names the sizes that are valid.
std::optional<AtomicAxes> deriveAxes(const MeshSizes &sizes, std::vector<std::string> &errors);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_MESHAXES_H

#include "lib/planfile/AxisNames.h"

#include "lib/support/Error.h"

#include <algorithm>

namespace llmc {
using namespace planfile;
using support::text;

std::vector<uint32_t> planfile::axesNamed(const MeshT &mesh, std::string_view name) {
  for (const auto &product : mesh.names)
    if (product->name == name)
      return product->axes;
  for (uint32_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i]->name == name)
      return {i};
  return {};
}

uint64_t planfile::sizeOf(const MeshT &mesh, const std::vector<uint32_t> &axes) {
  uint64_t size = 1;
  for (uint32_t axis : axes)
    size *= mesh.axes[axis]->size;
  return size;
}

bool planfile::areOverReplicas(const MeshT &mesh, const std::vector<uint32_t> &axes) {
  return std::any_of(axes.begin(), axes.end(), [&](uint32_t axis) {
    for (AxisRole role : {AxisRole::Data, AxisRole::Context})
      for (uint32_t own : axesOf(mesh, role))
        if (own == axis)
          return true;
    return false;
  });
}

namespace {
// Finds the fewest names whose axes are exactly those wanted, each once.
class Speller {
public:
  struct Name {
    std::string text;
    std::vector<uint32_t> axes;
    bool isAtomic = false; // the axis' own name, which users did not choose
  };

  Speller(const MeshT &mesh, std::vector<uint32_t> wanted) : mesh(mesh), wanted(std::move(wanted)) {
    for (AxisRole role : kAxisRoles)
      offer({std::string(nameOf(role)), axesOf(mesh, role)});
    for (const auto &product : mesh.names)
      if (!roleNamed(product->name))
        offer({product->name, product->axes});
    for (uint32_t i = 0; i < mesh.axes.size(); ++i)
      if (!roleNamed(mesh.axes[i]->name))
        offer({mesh.axes[i]->name, {i}, true});
  }

  std::vector<std::string> spell() {
    std::vector<size_t> dense;
    std::vector<uint32_t> covered;
    for (size_t i = 0; i < names.size(); ++i)
      for (AxisRole role : kDenseRoles)
        if (names[i].text == nameOf(role)) {
          dense.push_back(i);
          covered.insert(covered.end(), names[i].axes.begin(), names[i].axes.end());
        }
    std::sort(covered.begin(), covered.end());
    std::sort(wanted.begin(), wanted.end());
    if (covered == wanted)
      best = dense;
    else
      search({}, {}, 0);
    std::sort(best.begin(), best.end());
    std::vector<std::string> result;
    if (best.empty()) // Only a damaged plan has axes that no names cover.
      for (uint32_t axis : wanted)
        result.push_back(mesh.axes[axis]->name);
    for (size_t i : best)
      result.push_back(names[i].text);
    return result;
  }

private:
  void offer(Name name) {
    bool inside = !name.axes.empty();
    for (uint32_t axis : name.axes)
      inside &= std::find(wanted.begin(), wanted.end(), axis) != wanted.end();
    if (inside)
      names.push_back(std::move(name));
  }

  // Searches for the cheapest exact cover by backtracking, cut off at `bestCost`. Every plan that
  // the compiler writes has one, for there each atomic axis has a name of its own.
  void search(std::vector<size_t> chosen, std::vector<uint32_t> covered, size_t cost) {
    if (cost >= bestCost)
      return;
    auto isCovered = [&](uint32_t axis) {
      return std::find(covered.begin(), covered.end(), axis) != covered.end();
    };
    auto open = std::find_if_not(wanted.begin(), wanted.end(), isCovered);
    if (open == wanted.end()) {
      best = chosen;
      bestCost = cost;
      return;
    }
    for (size_t i = 0; i < names.size(); ++i) {
      const std::vector<uint32_t> &axes = names[i].axes;
      if (std::find(axes.begin(), axes.end(), *open) == axes.end() ||
          std::any_of(axes.begin(), axes.end(), isCovered))
        continue;
      std::vector<size_t> more = chosen;
      more.push_back(i);
      std::vector<uint32_t> all = covered;
      all.insert(all.end(), axes.begin(), axes.end());
      search(std::move(more), std::move(all), cost + (names[i].isAtomic ? 100 : 1));
    }
  }

  const MeshT &mesh;
  std::vector<uint32_t> wanted;
  std::vector<Name> names;
  std::vector<size_t> best;
  size_t bestCost = SIZE_MAX;
};
} // namespace

std::vector<std::string> planfile::userNames(const MeshT &mesh, const std::vector<uint32_t> &axes) {
  return Speller(mesh, axes).spell();
}

std::string planfile::joinedUserNames(const MeshT &mesh, const std::vector<uint32_t> &axes,
                                      std::string_view separator) {
  std::string joined;
  for (const std::string &name : userNames(mesh, axes))
    joined += text(joined.empty() ? "" : separator, name);
  return joined;
}

// Lists the axes that meshText() and coordinateText() print, each with its atomic axes.
static std::vector<std::pair<std::string, std::vector<uint32_t>>> listAxes(const MeshT &mesh) {
  std::vector<std::pair<std::string, std::vector<uint32_t>>> list;
  std::vector<bool> isKnown(mesh.axes.size(), false);
  for (AxisRole role : kAxisRoles) {
    std::vector<uint32_t> axes = axesOf(mesh, role);
    bool always = role == AxisRole::Data || role == AxisRole::Stages || role == AxisRole::Tensor;
    for (uint32_t axis : axes)
      isKnown[axis] = true;
    if (always || (role != AxisRole::ExpertData && sizeOf(mesh, axes) > 1))
      list.push_back({std::string(nameOf(role)), axes});
  }
  for (uint32_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (!isKnown[axis])
      list.push_back({mesh.axes[axis]->name, {axis}});
  return list;
}

std::string planfile::meshText(const MeshT &mesh, std::string_view sign,
                               std::string_view separator) {
  std::string result;
  for (const auto &[name, axes] : listAxes(mesh))
    result += text(result.empty() ? "" : separator, name, sign, sizeOf(mesh, axes));
  return result;
}

std::string planfile::coordinateText(const MeshT &mesh, const std::vector<uint32_t> &coordinate) {
  std::string result;
  for (const auto &[name, axes] : listAxes(mesh)) {
    uint64_t at = 0;
    for (uint32_t axis : axes)
      at = at * mesh.axes[axis]->size + coordinate[axis];
    result += text(result.empty() ? "" : ", ", name, " ", at);
  }
  return result;
}

} // namespace llmc

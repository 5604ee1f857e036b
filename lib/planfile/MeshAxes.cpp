#include "lib/planfile/MeshAxes.h"

#include "lib/support/Counted.h"

#include <algorithm>

namespace llmc {
using namespace planfile;
using support::text;

//===-- Names ---------------------------------------------------------------===//

// Spells the roles, in the order of kAxisRoles; nothing else does.
static constexpr std::string_view kNames[] = {"dp", "pp", "tp", "cp", "ep", "etp", "edp"};

std::string_view planfile::nameOf(AxisRole role) { return kNames[static_cast<size_t>(role)]; }

std::optional<AxisRole> planfile::roleNamed(std::string_view name) {
  for (AxisRole role : kAxisRoles)
    if (nameOf(role) == name)
      return role;
  return std::nullopt;
}

std::string planfile::allRoleNames() {
  std::string list;
  for (AxisRole role : kAxisRoles)
    list += text(list.empty() ? "" : ", ", nameOf(role));
  return list;
}

int64_t &MeshSizes::of(AxisRole role) {
  int64_t *sizes[] = {&dp, &pp, &tp, &cp, &ep, &etp, &edp};
  return *sizes[static_cast<size_t>(role)];
}

//===-- Derivation ----------------------------------------------------------===//

// Returns the products of the fastest 0, 1, 2 and 3 factors of a factorization of a stage's
// ranks.
static std::vector<int64_t> spans(int64_t fastest, int64_t middle, int64_t ranks) {
  return {1, fastest, fastest * middle, ranks};
}

// Returns the boundaries of the atomic axes: the spans of both factorizations, ascending; nullopt
// unless each divides the next.
static std::optional<std::vector<int64_t>> commonSpans(const MeshSizes &sizes, int64_t ep,
                                                       int64_t etp) {
  int64_t ranks = sizes.ranksOfStage();
  if (ep > ranks || etp > ranks / ep)
    return std::nullopt;
  std::vector<int64_t> all = spans(sizes.tp, sizes.cp, ranks);
  for (int64_t span : spans(etp, ep, ranks))
    all.push_back(span);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (size_t i = 0; i + 1 < all.size(); ++i)
    if (all[i + 1] % all[i] != 0)
      return std::nullopt;
  return all;
}

// Lists the divisors of `ranks`, up to 4096, for which `isValid` holds: " 1 2 4".
template <class IsValid>
static std::string validSizes(int64_t ranks, IsValid isValid) {
  std::string list;
  for (int64_t n = 1; n <= std::min<int64_t>(ranks, 4096); ++n)
    if (ranks % n == 0 && isValid(n))
      list += text(" ", n);
  return list;
}

static void checkSizes(const MeshSizes &sizes, std::vector<std::string> &errors) {
  int64_t ranks = 1;
  for (int64_t size : {sizes.dp, sizes.cp, sizes.tp, sizes.pp, sizes.ep, sizes.etp})
    if (size < 1)
      return errors.push_back(text("an axis of a mesh has size ", size, "; sizes are at least 1"));
  for (int64_t size : {sizes.dp, sizes.cp, sizes.tp, sizes.pp})
    if (__builtin_mul_overflow(ranks, size, &ranks))
      return errors.push_back("a mesh has more ranks than can be counted; choose smaller sizes");
  std::string stage = text("dp ", sizes.dp, " x cp ", sizes.cp, " x tp ", sizes.tp, " = ",
                           support::counted(sizes.ranksOfStage(), "rank"), " of a stage");
  bool agree = commonSpans(sizes, sizes.ep, sizes.etp).has_value();
  // States what commonSpans() asks for.
  std::string nests = text(" must divide them, and of it and each of tp = ", sizes.tp, " and tp x cp = ",
                           sizes.tp * sizes.cp, " one must divide the other");
  if (!agree && !commonSpans(sizes, 1, sizes.etp))
    errors.push_back(text("etp ", sizes.etp, " does not agree with ", stage, ": etp", nests,
                          "; valid sizes of etp are",
                          validSizes(sizes.ranksOfStage(), [&](int64_t etp) {
                            return commonSpans(sizes, 1, etp).has_value();
                          })));
  else if (!agree)
    errors.push_back(text("ep ", sizes.ep, " x etp ", sizes.etp, " does not agree with ", stage, ": ep x etp", nests,
                          "; with this etp valid sizes of ep are",
                          validSizes(sizes.ranksOfStage(), [&](int64_t ep) {
                            return commonSpans(sizes, ep, sizes.etp).has_value();
                          })));
  int64_t edp = agree ? sizes.ranksOfStage() / (sizes.ep * sizes.etp) : sizes.edp;
  if (sizes.edp && sizes.edp != edp)
    errors.push_back(text("edp ", sizes.edp, " x ep ", sizes.ep, " x etp ", sizes.etp,
                          " does not agree with ", stage, "; edp is ", edp, " there"));
}

// Adds the atomic axes of one dense role, which spans the ranks [from, to), and names them.
static void addAxes(AtomicAxes &result, AxisRole role, const std::vector<int64_t> &all,
                    int64_t from, int64_t to) {
  std::vector<int64_t> sizes; // slowest first
  for (size_t i = all.size(); i-- > 1;)
    if (all[i - 1] >= from && all[i] <= to)
      sizes.push_back(all[i] / all[i - 1]);
  for (size_t i = 0; i < sizes.size(); ++i)
    result.axes.push_back({sizes.size() == 1 ? std::string(nameOf(role)) : text(nameOf(role), i),
                           sizes[i]});
}

std::optional<AtomicAxes> planfile::deriveAxes(const MeshSizes &sizes,
                                               std::vector<std::string> &errors) {
  size_t before = errors.size();
  checkSizes(sizes, errors);
  if (errors.size() > before)
    return std::nullopt;
  AtomicAxes result;
  std::vector<int64_t> all = *commonSpans(sizes, sizes.ep, sizes.etp);
  std::vector<int64_t> dense = spans(sizes.tp, sizes.cp, sizes.ranksOfStage());
  std::vector<int64_t> expert = spans(sizes.etp, sizes.ep, sizes.ranksOfStage());
  result.axes.push_back({std::string(nameOf(AxisRole::Stages)), sizes.pp});
  addAxes(result, AxisRole::Data, all, dense[2], dense[3]);
  addAxes(result, AxisRole::Context, all, dense[1], dense[2]);
  addAxes(result, AxisRole::Tensor, all, dense[0], dense[1]);
  // Returns the axes inside of a span, slowest first: the last of the list is the fastest.
  auto within = [&](int64_t from, int64_t to) {
    std::vector<uint32_t> axes;
    for (size_t i = 1; i < result.axes.size(); ++i) {
      size_t top = result.axes.size() - i; // index into `all` of where axis i ends
      if (all[top - 1] >= from && all[top] <= to)
        axes.push_back(static_cast<uint32_t>(i));
    }
    return axes;
  };
  auto add = [&](AxisRole role, std::vector<uint32_t> axes) {
    result.products.push_back({role, std::move(axes)});
  };
  add(AxisRole::Data, within(dense[2], dense[3]));
  add(AxisRole::Stages, {0});
  add(AxisRole::Tensor, within(dense[0], dense[1]));
  add(AxisRole::Context, within(dense[1], dense[2]));
  add(AxisRole::Expert, within(expert[1], expert[2]));
  add(AxisRole::ExpertTensor, within(expert[0], expert[1]));
  add(AxisRole::ExpertData, within(expert[2], expert[3]));
  return result;
}

} // namespace llmc

// Atomic axes and the two ways to count the ranks of a stage with them; the names that
// people read.
#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Program.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace llmc::planfile;

namespace {

// A plan's mesh of these axes.
MeshT meshOf(const AtomicAxes &axes) {
  MeshT mesh;
  for (const auto &axis : axes.axes) {
    mesh.axes.push_back(std::make_unique<AxisT>());
    mesh.axes.back()->name = axis.name;
    mesh.axes.back()->size = static_cast<uint32_t>(axis.size);
  }
  for (const auto &product : axes.products) {
    mesh.names.push_back(std::make_unique<AxisProductT>());
    mesh.names.back()->name = nameOf(product.role);
    mesh.names.back()->axes = product.axes;
  }
  return mesh;
}

std::string textOf(const MeshSizes &s) {
  return llmc::support::text("dp=", s.dp, " pp=", s.pp, " tp=", s.tp, " cp=", s.cp, " ep=", s.ep,
                             " etp=", s.etp);
}

std::vector<std::string> errorsOf(const MeshSizes &sizes) {
  std::vector<std::string> errors;
  EXPECT_EQ(deriveAxes(sizes, errors).has_value(), errors.empty());
  return errors;
}

MeshT derive(const MeshSizes &sizes) {
  std::vector<std::string> errors;
  auto axes = deriveAxes(sizes, errors);
  EXPECT_TRUE(axes.has_value()) << textOf(sizes) + (errors.empty() ? "" : ": " + errors.front());
  return axes ? meshOf(*axes) : MeshT();
}

std::string joined(const MeshT &mesh) {
  std::string text;
  for (const auto &axis : mesh.axes)
    text += llmc::support::text(text.empty() ? "" : " ", axis->name, "=", axis->size);
  return text;
}

int64_t along(const MeshT &mesh, AxisRole role, const std::vector<uint32_t> &coordinate) {
  int64_t at = 0;
  for (uint32_t axis : axesOf(mesh, role))
    at = at * mesh.axes[axis]->size + coordinate[axis];
  return at;
}

// Every rank has the coordinates that counting says, in both ways.
void expectCounted(const MeshSizes &s) {
  MeshT mesh = derive(s);
  if (mesh.axes.empty())
    return;
  std::string what = textOf(s) + " as " + joined(mesh);
  int64_t stage = s.dp * s.cp * s.tp, edp = stage / (s.ep * s.etp);
  EXPECT_TRUE(rankCount(mesh) == stage * s.pp) << what;
  for (size_t i = 1; i < mesh.axes.size(); ++i)
    EXPECT_TRUE(mesh.axes[i]->size > 1) << what + ": an axis of size 1";
  for (uint32_t rank = 0; rank < rankCount(mesh); ++rank) {
    std::vector<uint32_t> c = coordinateOf(mesh, rank);
    auto at = [&](AxisRole role) { return along(mesh, role, c); };
    int64_t dense = ((at(AxisRole::Stages) * s.dp + at(AxisRole::Data)) * s.cp +
                     at(AxisRole::Context)) * s.tp + at(AxisRole::Tensor);
    int64_t expert = ((at(AxisRole::Stages) * edp + at(AxisRole::ExpertData)) * s.ep +
                      at(AxisRole::Expert)) * s.etp + at(AxisRole::ExpertTensor);
    EXPECT_TRUE(dense == rank) << what + ": rank " + std::to_string(rank) + " of dense work";
    EXPECT_TRUE(expert == rank) << what + ": rank " + std::to_string(rank) + " of experts";
  }
  for (AxisRole role : kAxisRoles) {
    MeshSizes sizes = s;
    sizes.edp = edp;
    EXPECT_TRUE(sizeOf(mesh, role) == static_cast<uint64_t>(sizes.of(role)))
        << what + ": size of " + std::string(nameOf(role));
  }
}

bool contains(const std::vector<std::string> &lines, const std::string &part) {
  for (const std::string &line : lines)
    if (line.find(part) != std::string::npos)
      return true;
  return false;
}

TEST(MeshAxes, PlainSizesHaveAnAxisEach) {
  EXPECT_EQ(joined(derive({})), "pp=1");
  EXPECT_EQ(joined(derive({.dp = 8, .pp = 16, .tp = 8})), "pp=16 dp=8 tp=8");
  EXPECT_EQ(joined(derive({.dp = 3, .tp = 2, .cp = 5})), "pp=1 dp=3 cp=5 tp=2");
}

TEST(MeshAxes, ExpertsRefineTheAxes) {
  EXPECT_EQ(joined(derive({.dp = 4, .pp = 2, .tp = 2, .ep = 4, .etp = 1})), "pp=2 dp0=2 dp1=2 tp=2");
  EXPECT_EQ(joined(derive({.dp = 4, .tp = 2, .ep = 2, .etp = 2})), "pp=1 dp0=2 dp1=2 tp=2");
  EXPECT_EQ(joined(derive({.dp = 2, .tp = 4, .cp = 2, .ep = 8, .etp = 2})),
            "pp=1 dp=2 cp=2 tp0=2 tp1=2");
}

TEST(MeshAxes, EveryRankAgreesInBothWaysToCount) {
  std::mt19937 random(7);
  auto draw = [&](std::initializer_list<int64_t> from) {
    return *(from.begin() + random() % from.size());
  };
  int agreed = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    MeshSizes s{.dp = draw({1, 2, 3, 4, 6, 8}), .pp = draw({1, 1, 2, 3}), .tp = draw({1, 2, 3, 4}),
                .cp = draw({1, 1, 2, 4}), .ep = draw({1, 2, 3, 4, 6, 8}), .etp = draw({1, 1, 2, 4})};
    std::vector<std::string> errors;
    if (deriveAxes(s, errors)) {
      ++agreed;
      expectCounted(s);
      continue;
    }
    ++refused;
    // Each size that the error calls valid is valid, and the given one is not among them.
    EXPECT_TRUE(errors.size() == 1) << textOf(s);
    bool isEtp = contains(errors, "valid sizes of etp are");
    std::istringstream sizes(errors[0].substr(errors[0].find(" are ") + 5));
    int64_t given = isEtp ? s.etp : s.ep, count = 0;
    for (int64_t n = 0; sizes >> n; ++count) {
      MeshSizes other = s;
      (isEtp ? other.etp : other.ep) = n;
      if (isEtp)
        other.ep = 1;
      EXPECT_TRUE(n != given && errorsOf(other).empty()) << textOf(s) + ": " + errors[0];
    }
    EXPECT_TRUE(count > 0) << textOf(s) + ": " + errors[0];
  }
  EXPECT_TRUE(agreed > 500 && refused > 500) << "draws of both kinds";
}

TEST(MeshAxes, ProductsThatDoNotAgreeAreRefused) {
  EXPECT_TRUE(
      contains(errorsOf({.dp = 2, .tp = 2, .ep = 3}),
               "ep 3 x etp 1 does not agree with dp 2 x cp 1 x tp 2 = 4 ranks of a stage: ep x etp "
               "must divide them, and of it and each of tp = 2 and tp x cp = 2 one must divide the other; with "
               "this etp valid sizes of ep are 1 2 4"));
  EXPECT_TRUE(contains(errorsOf({.dp = 2, .tp = 2, .etp = 8}), "valid sizes of etp are 1 2 4"));
  EXPECT_TRUE(contains(errorsOf({.dp = 4, .ep = 2, .edp = 3}), "edp is 2 there"));
  EXPECT_TRUE(errorsOf({.dp = 4, .ep = 2, .edp = 2}).empty());
  std::vector<std::string> both = errorsOf({.dp = 2, .tp = 2, .ep = 3, .edp = 3});
  EXPECT_EQ(both.size(), 1u); // without a valid ep nothing can be said of edp
  EXPECT_TRUE(contains(errorsOf({.dp = 0}), "at least 1"));
  EXPECT_TRUE(contains(errorsOf({.dp = int64_t(1) << 40, .tp = int64_t(1) << 40}), "more ranks"));
}

TEST(MeshAxes, PeopleReadTheFewestNames) {
  using Names = std::vector<std::string>;
  auto text = [](const MeshT &mesh, std::vector<uint32_t> axes) {
    return joinedUserNames(mesh, axes, " ");
  };
  MeshT plain = derive({.dp = 2, .pp = 2, .tp = 2}); // pp dp tp
  EXPECT_TRUE(userNames(plain, {1}) == Names({"dp"}));
  // All ranks of a stage are the data group of experts too, but dense names come first.
  EXPECT_EQ(text(plain, {1, 2}), "dp tp");
  EXPECT_EQ(text(plain, {2, 0, 1}), "dp pp tp");
  MeshT mesh = derive({.dp = 4, .tp = 2, .cp = 2, .ep = 4, .etp = 2}); // pp dp0 dp1 cp tp
  EXPECT_EQ(joined(mesh), "pp=1 dp0=2 dp1=2 cp=2 tp=2");
  EXPECT_EQ(text(mesh, {1, 2}), "dp");
  EXPECT_EQ(text(mesh, {1, 2, 3}), "dp cp");
  EXPECT_EQ(text(mesh, {2, 3}), "ep");
  EXPECT_EQ(text(mesh, {1}), "edp");
  EXPECT_EQ(text(mesh, {4}), "tp");
  EXPECT_EQ(text(mesh, {2}), "dp1"); // no user has a name for it
  EXPECT_EQ(meshText(mesh, " ", " x "), "dp 4 x pp 1 x tp 2 x cp 2 x ep 4 x etp 2");
  EXPECT_EQ(coordinateText(mesh, {0, 1, 0, 1, 1}), "dp 2, pp 0, tp 1, cp 1, ep 1, etp 1");
}

} // namespace

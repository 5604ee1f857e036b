// Tests that shardings of states do not depend on names, the order of ops, and how q, k and
// v are written.
#include "dialects/parallel/Annotations.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "test/passes/3-shard/Models.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

// Holds the sharding of each state, by the name of its parameter in the text and its role;
// and counts the shardings of each kind of op.
struct Layout {
  std::map<std::string, std::string> states;
  std::map<std::string, int> ops;
};

std::string print(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (attribute)
    attribute.print(stream);
  return text;
}

// `names` maps the symbols of states to those of the text.
Layout readLayout(ModuleOp module, const std::map<std::string, std::string> &names) {
  Layout layout;
  for (auto state : module.getOps<graph::StateOp>()) {
    std::string owner = state.getOf() ? state.getOf()->str() : state.getSymName().str();
    if (auto it = names.find(owner); it != names.end())
      owner = it->second;
    if (!state.getOf() && state.getRole() != graph::Role::parameter)
      owner = "the step";
    layout.states[owner + " " + graph::stringifyRole(state.getRole()).str()] =
        print(state->getAttr(parallel::kSharding));
  }
  module.walk([&](Operation *op) {
    // A sum of several cotangents may be written in any order; all else counts.
    if (isa<graph::GraphOpInterface>(op) && !isa<graph::AddOp>(op))
      ++layout.ops[op->getName().getStringRef().str() + " " + print(op->getAttr(parallel::kIn)) + " " +
                   print(op->getAttr(parallel::kOut)) + " " + print(op->getAttr(parallel::kStage))];
  });
  return layout;
}

struct Change {
  bool rename = false, shuffle = false;
};

class Sharder {
public:
  Sharder() { loadDialects(context); }

  // Phases 2 and 3 with changes before and between them; `what` for messages.
  Layout run(const Model &model, const Mesh &mesh, const std::string &what, Change change = {},
             unsigned seed = 0) {
    std::mt19937 random(seed);
    std::map<std::string, std::string> names;
    OwningOpRef<ModuleOp> module = parse(context, model.text());
    auto apply = [&] {
      if (change.shuffle)
        shuffleOps(*module, random);
      if (!change.rename)
        return;
      std::map<std::string, std::string> before = names;
      names.clear();
      for (auto &[now, old] : renameAll(*module, random))
        names[now] = before.count(old) ? before[old] : old;
    };
    apply();
    runPhase(*module, [](OpPassManager &pm) { buildTrainPipeline(pm, {}); }, what);
    setMesh(*module, mesh);
    apply();
    runPhase(*module, [](OpPassManager &pm) { buildShardPipeline(pm); }, what);
    EXPECT_TRUE(succeeded(parallel::verifyAnnotations(*module)))
        << what + ": annotations are wrong";
    return readLayout(*module, names);
  }

private:
  void runPhase(ModuleOp module, llvm::function_ref<void(OpPassManager &)> build, const std::string &what) {
    std::string messages;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        messages += "\n  " + diagnostic.str();
      return success();
    });
    PassManager passes(&context);
    build(passes);
    EXPECT_TRUE(succeeded(passes.run(module))) << what + " fails" + messages;
  }
  MLIRContext context;
};

// Says the first difference of two layouts.
template <typename Map>
void expectSame(const Map &got, const Map &expected, const std::string &what) {
  auto show = [](const auto &value) {
    std::ostringstream text;
    text << value;
    return text.str();
  };
  for (auto &[key, value] : expected) {
    auto it = got.find(key);
    EXPECT_TRUE(it != got.end() && it->second == value)
        << what + ": " + key + " is " + (it == got.end() ? "nowhere" : show(it->second)) +
               ", was " + show(value);
  }
  for (auto &[key, value] : got)
    EXPECT_TRUE(expected.count(key)) << what + ": " + key + " is new";
}

void expectSame(const Layout &got, const Layout &expected, const std::string &what) {
  expectSame(got.states, expected.states, what);
  expectSame(got.ops, expected.ops, what);
}

// Draws models and compares the layouts of two ways to write each.
void compare(llvm::function_ref<Layout(Sharder &, Model, const Mesh &, unsigned, const std::string &)> other) {
  for (int i = 0; i < draws().count; ++i) {
    unsigned seed = draws().seed + i;
    std::mt19937 random(seed);
    Mesh mesh = drawMesh(random, 64);
    Model model = drawModel(random, mesh);
    std::string what = "seed " + std::to_string(seed) + ", " + model.describe();
    Sharder sharder;
    Layout plain = sharder.run(model, mesh, what);
    expectSame(other(sharder, model, mesh, seed, what), plain, what);
  }
}

TEST(Sharding, RenamingChangesNoSharding) {
  compare([](Sharder &sharder, const Model &model, const Mesh &mesh, unsigned seed,
             const std::string &what) { return sharder.run(model, mesh, what, {.rename = true}, seed); });
}

TEST(Sharding, OrderOfOpsChangesNoSharding) {
  compare([](Sharder &sharder, const Model &model, const Mesh &mesh, unsigned seed,
             const std::string &what) { return sharder.run(model, mesh, what, {.shuffle = true}, seed); });
}

TEST(Sharding, OrderOfQKVChangesNoSharding) {
  compare([](Sharder &sharder, Model model, const Mesh &mesh, unsigned seed, const std::string &what) {
    std::mt19937 random(seed);
    std::shuffle(model.order.begin(), model.order.end(), random);
    return sharder.run(model, mesh, what);
  });
}

TEST(Sharding, ViewsOfOneSourceChangeNoSharding) {
  compare([](Sharder &sharder, Model model, const Mesh &mesh, unsigned, const std::string &what) {
    model.fused = true;
    return sharder.run(model, mesh, what);
  });
}

// Names of products in place of the axes that they are made of.
std::string withProducts(std::string text) {
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  for (const char *name : {"dp", "tp"})
    for (int last = 3; last > 0; --last) {
      std::string list, sums, maxima, product = "\"" + std::string(name) + "\"";
      for (int i = 0; i <= last; ++i) {
        std::string axis = "\"" + std::string(name) + std::to_string(i) + "\"";
        list += (i ? ", " : "") + axis;
        sums += (i ? ", " : "") + axis + ": sum";
        maxima += (i ? ", " : "") + axis + ": max";
      }
      replace(list, product);
      replace(sums, product + ": sum");
      replace(maxima, product + ": max");
    }
  return text;
}

// Axes that experts would share cut what one axis of their size cuts.
TEST(Sharding, AtomicAxesOfAProductCutLikeOne) {
  int refined = 0;
  for (int i = 0; i < draws().count; ++i) {
    std::mt19937 random(draws().seed + i);
    Mesh mesh = drawMesh(random, 64), plain = mesh;
    Model model = drawModel(random, mesh);
    plain.ep = plain.etp = 1;
    Sharder sharder;
    std::string what = "seed " + std::to_string(draws().seed + i) + ", mesh " + mesh.text();
    Layout layout = sharder.run(model, mesh, what), collapsed;
    for (auto &[key, value] : layout.states)
      collapsed.states[key] = withProducts(value);
    for (auto &[key, value] : layout.ops)
      collapsed.ops[withProducts(key)] += value;
    refined += collapsed.ops != layout.ops;
    expectSame(collapsed, sharder.run(model, plain, what), what);
  }
  EXPECT_TRUE(refined > 0 || draws().count < 30) << "no drawn mesh has a product of axes";
}

// The comparison can fail: another mesh gives other shardings of a block's weights.
TEST(Sharding, ACutIsSeen) {
  Sharder sharder;
  Layout whole = sharder.run(Model(), Mesh(), "mesh of one"),
         cut = sharder.run(Model(), Mesh{.tp = 2}, "tp of 2");
  EXPECT_TRUE(whole.states != cut.states);
  EXPECT_TRUE(cut.states["w_q parameter"].find("{}, {}, {\"tp\"}") != std::string::npos);
  EXPECT_TRUE(cut.states["w_o parameter"].find("{}, {\"tp\"}, {}") != std::string::npos);
  EXPECT_EQ(cut.states["w_q moment1"], cut.states["w_q parameter"]);
}

} // namespace
} // namespace llmc::test

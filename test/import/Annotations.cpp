// Tests that annotations of devices in a file reach the sources of its weights, or are refused
// or noted; none is passed over in silence.
#include "Folder.h"
#include "GraphBuilder.h"

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

struct Annotated : Graph {
  Annotated(int devices = 4) {
    floats("up", {width, 8}, 2);
    floats("down", {8, width}, 3);
    floats("head", {width, 6}, 4);
    node("MatMul", {"x", "up"}, {"a"}).set_name("up node");
    node("MatMul", {"a", "down"}, {"b"}).set_name("down node");
    node("MatMul", {"b", "head"}, {"logits"}).set_name("head node");
    auto &configuration = *model.add_configuration();
    configuration.set_name("mesh");
    configuration.set_num_devices(devices);
  }
  ::onnx::NodeDeviceConfigurationProto &on(int node) {
    auto &own = *graph.mutable_node(node)->add_device_configurations();
    own.set_configuration_id("mesh");
    return own;
  }
  void cut(int node, const char *tensor, int64_t axis, int64_t parts) {
    auto &spec = *on(node).add_sharding_spec();
    spec.set_tensor_name(tensor);
    auto &dim = *spec.add_sharded_dim();
    dim.set_axis(axis);
    dim.add_simple_sharding()->set_num_shards(parts);
  }
  void stage(int node, int stage) { on(node).set_pipeline_stage(stage); }
};

// The annotations of all sources on a mesh of 1x2x2, by name; what is said besides.
std::map<std::string, std::string> read(Annotated &g, std::string &message) {
  Folder folder;
  CompileOptions options = optionsFor(2, 3);
  options.pp = options.tp = 2;
  MLIRContext context;
  auto module = import(context, folder.write("small.onnx", g.model.SerializeAsString()), options,
                       message);
  std::map<std::string, std::string> out;
  if (module)
    for (auto source : module->getOps<graph::SourceOp>())
      if (auto annotation = source->getAttr("graph.annotation"))
        llvm::raw_string_ostream(out[source.getSymName().str()]) << annotation;
  return out;
}

void refused(const std::string &what, Annotated &g, std::initializer_list<const char *> words) {
  Outcome got;
  auto found = read(g, got.message);
  EXPECT_TRUE(found.empty()) << what + ": nothing is read";
  refuses(what, got, words);
}

} // namespace

TEST(Annotations, Annotations) {
  std::string message;
  Annotated good;
  good.stage(1, 0);
  good.cut(1, "up", -1, 2);
  good.stage(2, 1);
  good.cut(2, "down", 0, 2);
  auto found = read(good, message);
  EXPECT_TRUE(message.empty() && found.size() == 2) << "annotations: " + message;
  EXPECT_TRUE(found["up"] ==
              "{cuts = array<i64: 1, 2>, node = \"up node\", stages = array<i64: 0>}")
      << "up: " + found["up"];
  EXPECT_TRUE(found["down"] ==
              "{cuts = array<i64: 2, 1>, node = \"down node\", stages = array<i64: 1>}")
      << "down: " + found["down"];

  Annotated values;
  values.cut(1, "a", 2, 2);
  values.cut(1, "x", 0, 1);
  found = read(values, message);
  EXPECT_TRUE(message.empty() && found["up"] == "{cuts = array<i64: 1, 2>, node = \"up node\"}" &&
              found["down"] == "{cuts = array<i64: 2, 0>, node = \"up node\"}")
      << "a value is cut as the columns before and the rows behind it: " + found["up"] + ", " +
             found["down"] + ", " + message;
  Annotated whole;
  whole.cut(2, "down", 0, 2);
  whole.cut(1, "a", 0, 1);
  found = read(whole, message);
  EXPECT_TRUE(message.empty() && found["up"] == "{cuts = array<i64: 0, 1>, node = \"up node\"}" &&
              found["down"] == "{cuts = array<i64: 2, 1>, node = \"down node\"}")
      << "a whole value keeps what comes before it whole: " + found["up"] + ", " + found["down"] +
             ", " + message;
  Annotated others(8);
  others.stage(1, 5);
  others.cut(2, "down", 0, 4);
  EXPECT_TRUE(read(others, message).empty() &&
              message.find("2 nodes are not used") != std::string::npos &&
              message.find("8 devices") != std::string::npos)
      << "annotations for another mesh are noted: " + message;

  Annotated late;
  late.stage(3, 2);
  refused("a stage beyond the last", late, {"'head node'", "pipeline stage 2", "pp is 2"});
  Annotated thirds;
  thirds.cut(1, "up", 1, 3);
  refused("a cut in three", thirds, {"'up node'", "'up' cut in 3", "tp is 2"});
  // The squares of the factors of 2^72 - 1 are 1 modulo 2^64, so the product wraps to 2.
  Annotated wrapped;
  wrapped.cut(1, "up", 1, 2);
  auto &pieces = *wrapped.graph.mutable_node(1)
                      ->mutable_device_configurations(0)
                      ->mutable_sharding_spec(0)
                      ->mutable_sharded_dim(0);
  for (int64_t factor : {27 * 5 * 7 * 13, 19 * 37 * 73, 109 * 17 * 241, 433, 38737})
    for (int twice = 0; twice < 2; ++twice)
      pieces.add_simple_sharding()->set_num_shards(factor);
  refused("a cut in more parts than 64 bits hold", wrapped,
          {"'up node'", "'up' cut in", "tp is 2"});
  Annotated outside;
  outside.cut(1, "up", 2, 2);
  refused("a cut of a third dim", outside, {"'up node'", "axis 2 of 2"});
  Annotated stranger;
  stranger.cut(1, "head", 0, 2);
  refused("a cut of another node's weight", stranger, {"'up node'", "'head'", "neither"});
  Annotated twice;
  twice.cut(1, "up", 1, 2);
  twice.cut(1, "up", 0, 2);
  refused("two cuts that disagree", twice, {"'up node'", "otherwise"});
  Annotated across;
  across.cut(2, "down", 1, 2);
  across.cut(1, "a", 2, 2);
  refused("a value against a weight", across,
          {"'up node'", "'a' cut in 2 along axis 2", "'down' along 0", "'down node'"});
  Annotated sequence;
  sequence.cut(1, "a", 1, 2);
  refused("a cut of the sequence", sequence, {"'up node'", "'a' cut in 2 along axis 1", "dimension 1 of input"});
}

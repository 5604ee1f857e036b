#include "lib/onnx/file/Annotations.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttrs.h"
#include "mlir/IR/Builders.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

using Configuration = ::onnx::NodeDeviceConfigurationProto;

class Reader {
public:
  Reader(const Model &model, const NodeOrder &order, const CompileOptions &options)
      : model_(model), order_(order), options_(options) {}

  Result<Annotations> run() {
    if (!choose())
      return std::move(out_);
    for (const Node &node : order_.nodes)
      for (const Configuration &own : node.proto->device_configurations())
        if (own.configuration_id() == chosen_)
          if (Status s = readNode(node, own); !s)
            return error(model_.path(), ": ", node.label(), ": ", s.message());
    return std::move(out_);
  }

private:
  const Model &model_;
  const NodeOrder &order_;
  const CompileOptions &options_;
  std::string chosen_;
  Annotations out_;

  // Chooses the configuration for the mesh; returns false, with a note, if no annotation is used.
  bool choose() {
    size_t annotated = 0;
    for (const Node &node : order_.nodes)
      annotated += node.proto->device_configurations_size() != 0;
    if (!annotated)
      return false;
    std::string sizes;
    for (const auto &configuration : model_.proto().configuration()) {
      chosen_ = configuration.name();
      if (configuration.num_devices() == options_.ranks())
        return true;
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(configuration.num_devices());
    }
    out_.notes.push_back("annotations of " + std::to_string(annotated) +
                         (annotated > 1 ? " nodes" : " node") + " are not used: they are for " +
                         (sizes.empty() ? "no" : sizes) + " devices, the mesh has " +
                         std::to_string(options_.ranks()));
    return false;
  }

  Status readNode(const Node &node, const Configuration &own) {
    if (own.has_pipeline_stage()) {
      if (own.pipeline_stage() < 0 || own.pipeline_stage() >= options_.pp)
        return error("is annotated for pipeline stage ", own.pipeline_stage(), ", pp is ",
                     options_.pp, ": choose a mesh with that stage");
      for (size_t i = 0; i < node.inputs(); ++i)
        if (auto tensor = weightOf(node.input(i))) {
          WeightAnnotation &weight = out_.weights[*tensor];
          weight.stages.insert(own.pipeline_stage());
          if (weight.node.empty())
            weight.node = node.name();
        }
    }
    for (const auto &spec : own.sharding_spec())
      if (Status s = readSpec(node, spec); !s)
        return s;
    return support::ok();
  }

  // Returns the stored float tensor of more than one element that an operand is, looking through
  // nodes that rearrange it.
  std::optional<unsigned> weightOf(llvm::StringRef name) const {
    static const llvm::StringSet<> keeps = {"Transpose", "Cast", "Identity", "Reshape"};
    for (auto it = order_.producer.find(name);
         it != order_.producer.end() && keeps.contains(order_.nodes[it->second].op());
         it = order_.producer.find(name))
      name = order_.nodes[it->second].input(0);
    auto tensor = model_.find(name);
    bool weight = tensor && model_.stored()[*tensor].isFloat() && model_.stored()[*tensor].count() > 1;
    return weight ? tensor : std::nullopt;
  }

  // Returns the number of shards of a dim: the product over its fused pieces, which is more than
  // any mesh has if it exceeds `most`.
  static int64_t partsOf(const ::onnx::ShardedDimProto &dim) {
    constexpr int64_t most = 1 << 30;
    int64_t parts = 1;
    for (const auto &piece : dim.simple_sharding())
      parts = std::min(parts * std::clamp<int64_t>(piece.num_shards(), 1, most), most);
    return parts;
  }

  Status readSpec(const Node &node, const ::onnx::ShardingSpecProto &spec) {
    const std::string &name = spec.tensor_name();
    if (!llvm::is_contained(node.proto->input(), name) &&
        !llvm::is_contained(node.proto->output(), name))
      return error("is annotated for '", name, "', which is neither operand nor result");
    auto tensor = model_.find(name);
    std::vector<int64_t> cuts(tensor ? model_.stored()[*tensor].shape.size() : 0, 1);
    ValueAnnotation value{node.name(), name, {}};
    for (const auto &dim : spec.sharded_dim()) {
      int64_t parts = partsOf(dim), axis = dim.axis();
      bool agrees = parts == 1 || (options_.tp > 1 && parts == options_.tp) ||
                    (!tensor && axis == 0 && parts == options_.dp);
      if (!agrees)
        return error("wants '", name, "' cut in ", parts, " along axis ", axis, ", tp is ",
                     options_.tp, " and dp ", options_.dp, ": choose a mesh that fits");
      if (!tensor) {
        if (parts > 1)
          value.cuts.push_back({axis, parts});
        continue;
      }
      auto normal = normalAxis(axis, cuts.size());
      if (!normal)
        return error("wants '", name, "' cut along axis ", axis, " of ", cuts.size());
      cuts[*normal] = parts;
    }
    if (!tensor) {
      out_.values.push_back(std::move(value));
      return support::ok();
    }
    WeightAnnotation &weight = out_.weights[*tensor];
    if (!weight.cuts.empty() && weight.cuts != cuts)
      return error("wants '", name, "' cut otherwise than node '", weight.node, "'");
    weight.cuts = cuts;
    if (weight.node.empty())
      weight.node = node.name();
    return support::ok();
  }
};

} // namespace

Result<Annotations> llmc::onnximport::readAnnotations(const Model &model, const NodeOrder &order,
                                                      const CompileOptions &options) {
  return Reader(model, order, options).run();
}

void llmc::onnximport::writeAnnotations(mlir::ModuleOp module, const Model &model,
                                        const Annotations &annotations) {
  mlir::Builder b(module.getContext());
  llvm::StringMap<const WeightAnnotation *> byName;
  for (const auto &[tensor, weight] : annotations.weights)
    byName[model.stored()[tensor].name] = &weight;
  for (auto source : module.getOps<graph::SourceOp>()) {
    auto it = byName.find(source.getSymName());
    if (it == byName.end())
      continue;
    const WeightAnnotation &weight = *it->second;
    mlir::NamedAttrList list;
    list.append("node", b.getStringAttr(weight.node));
    if (!weight.stages.empty())
      list.append("stages", b.getDenseI64ArrayAttr(
                                llvm::to_vector(weight.stages)));
    if (!weight.cuts.empty())
      list.append("cuts", b.getDenseI64ArrayAttr(weight.cuts));
    source->setAttr(graph::kAnnotation, list.getDictionary(b.getContext()));
  }
}

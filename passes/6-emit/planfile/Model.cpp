// Writes the tables that describe the model and the step: mesh, model, options, files, sources
// and kernels.
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/planfile/PlanWriter.h"

#include "dialects/parallel/Annotations.h"
#include "lib/planfile/Elements.h"
#include "lib/support/Checkpoint.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace llmc::emit {

using namespace planfile;

static std::string text(DictionaryAttr from, StringRef key) {
  auto value = from ? from.getAs<StringAttr>(key) : StringAttr();
  return value ? value.str() : std::string();
}
static int64_t number(DictionaryAttr from, StringRef key, int64_t otherwise = 0) {
  auto value = from ? from.getAs<IntegerAttr>(key) : IntegerAttr();
  return value ? value.getInt() : otherwise;
}
static std::vector<std::string> texts(Attribute list) {
  std::vector<std::string> result;
  if (auto array = dyn_cast_or_null<ArrayAttr>(list))
    for (Attribute entry : array)
      if (auto value = dyn_cast<StringAttr>(entry))
        result.push_back(value.str());
  return result;
}

LogicalResult PlanWriter::writeMesh() {
  mesh = module->getAttrOfType<parallel::MeshAttr>(parallel::kMesh);
  if (!mesh)
    return module.emitError("has no parallel.mesh");
  program.mesh = std::make_unique<MeshT>();
  for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes())) {
    auto axis = std::make_unique<AxisT>();
    axis->name = name.str();
    axis->size = size;
    program.mesh->axes.push_back(std::move(axis));
  }
  auto indices = [&](ArrayRef<StringAttr> axes) {
    std::vector<uint32_t> list;
    for (StringAttr axis : axes)
      list.push_back(mesh.getIndex(axis.getValue()));
    return list;
  };
  auto addName = [&](StringRef name) {
    auto product = std::make_unique<AxisProductT>();
    product->name = name.str();
    product->axes = indices(mesh.getAxes(name));
    program.mesh->names.push_back(std::move(product));
  };
  for (AxisRole role : kAxisRoles)
    addName(nameOf(role));
  for (NamedAttribute product : mesh.getProducts())
    if (!roleNamed(product.getName().getValue()))
      addName(product.getName().getValue());
  StringAttr stageAxis = mesh.getStageAxis();
  if (!stageAxis)
    return module.emitError("the mesh has no axis ")
           << nameOf(AxisRole::Stages) << ", along which stages lie";
  program.stage_axis = mesh.getIndex(stageAxis.getValue());
  return success();
}

void PlanWriter::writeModel() {
  auto attributes = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  program.model = std::make_unique<ModelInfoT>();
  ModelInfoT &model = *program.model;
  model.name = text(attributes, "name");
  model.source_path = text(attributes, "source_path");
  model.layers = number(attributes, "layers");
  model.blocks = texts(attributes ? attributes.get("blocks") : Attribute());
  model.constants = texts(module->getAttr(graph::kConstants));
  model.vocabulary = number(attributes, "vocabulary");
  model.sequence = number(attributes, "sequence");
  model.config_json = text(attributes, "config_json");
  model.weights_note = text(attributes, "weights_note");
  for (auto state : module.getOps<graph::StateOp>()) {
    if (state.getRole() != graph::Role::parameter)
      continue;
    uint64_t elements = 1;
    if (auto valid = state.getValidShape())
      for (Attribute size : *valid)
        elements *= cast<IntegerAttr>(size).getInt();
    else
      elements = cast<RankedTensorType>(state.getType()).getNumElements();
    model.parameters += elements;
  }
}

void PlanWriter::writeOptions() {
  auto options = module->getAttrOfType<DictionaryAttr>("plan.options");
  program.mode = parallel::isInference(module) ? Mode::Infer : Mode::Train;
  program.schedule = text(options, "schedule");
  auto choice = [&](StringRef name, StringRef standard) {
    std::string chosen = text(options, name);
    return chosen.empty() ? standard.str() : chosen;
  };
  program.sequence_parallel = choice("sequence_parallel", "off");
  program.cp_kind = text(options, "cp_kind");
  double microBatches = double(number(options, "micro_batches", 1));
  if (auto flops = module->getAttrOfType<ArrayAttr>("plan.attention_flops"))
    for (FloatAttr of : flops.getAsRange<FloatAttr>())
      program.attention_flops.push_back(of.getValueAsDouble() * microBatches);
  program.recompute = choice("recompute", "none");
  program.dropout = text(options, "dropout_rates");
  program.memory_limit = number(options, "memory_limit", 0);
  auto real = [&](StringRef name) {
    auto value = options ? options.getAs<FloatAttr>(name) : FloatAttr();
    return value ? value.getValueAsDouble() : 0.0;
  };
  program.moe_budget_most = real("moe_budget_most");
  bool isLimited = program.mode == Mode::Train && real("moe_budget") > 0;
  program.moe_budget = isLimited ? real("moe_budget") : program.moe_budget_most;
  program.moe_capacity = real("moe_capacity");
  if (auto choices = module->getAttrOfType<IntegerAttr>(graph::kChoices))
    program.moe_choices = static_cast<uint64_t>(choices.getInt()) * number(options, "micro_batches", 1);
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  program.active_parameters = number(model, "active_parameters", 0);
  program.micro_batch = number(options, "micro_batch", 1);
  program.micro_batches = number(options, "micro_batches", 1);
  program.global_batch = number(options, "global_batch", 1);
  if (auto recomputed = module->getAttrOfType<ArrayAttr>("plan.recomputed"))
    for (auto one : recomputed.getAsRange<DictionaryAttr>()) {
      auto entry = std::make_unique<RecomputedT>();
      entry->stage = number(one, "stage");
      entry->chunk = number(one, "chunk");
      entry->layers = number(one, "layers", 1);
      entry->node = text(one, "node");
      entry->op = text(one, "op");
      entry->kept = bool(one.get("kept"));
      entry->bytes = number(one, "bytes");
      if (auto flops = one.getAs<FloatAttr>("flops"))
        entry->flops = flops.getValueAsDouble();
      entry->ops = texts(one.get("ops"));
      program.recomputed.push_back(std::move(entry));
    }
  if (auto scale = options ? options.getAs<FloatAttr>("loss_scale") : FloatAttr())
    program.loss_scale = scale.getValueAsDouble();
  std::string optimizer = text(options, "optimizer");
  program.optimizer = optimizer == "adamw" ? OptimizerKind::AdamW
                      : optimizer == "sgd" ? OptimizerKind::Sgd
                                           : OptimizerKind::None;
}

// Raises a budget to the most where slots, which are whole, hold all rows: such a plan counts none without room.
void PlanWriter::writeRoom() {
  bool mayLack = llvm::any_of(program.stages, [](const auto &stage) {
    return llvm::any_of(stage->outputs, [](const auto &output) { return output->name == graph::kLostRows; });
  });
  if (!mayLack)
    program.moe_budget = std::max(program.moe_budget, program.moe_budget_most);
}

void PlanWriter::writeFiles() {
  auto files = module->getAttrOfType<ArrayAttr>(graph::kFiles);
  if (!files)
    return;
  for (auto entry : files.getAsRange<DictionaryAttr>()) {
    auto file = std::make_unique<SourceFileT>();
    file->path = text(entry, "path");
    file->byte_size = number(entry, "byte_size");
    file->hash = number(entry, "hash");
    program.files.push_back(std::move(file));
  }
}

static Coding codingOf(Type type) {
  return isa<Float8E4M3FNType>(type)   ? Coding::Float8E4M3
         : isa<Float8E5M2Type>(type)   ? Coding::Float8E5M2
         : isa<Float4E2M1FNType>(type) ? Coding::Float4E2M1
                                       : Coding::Plain;
}

// Returns the scales of a quantized source, or null if the attribute is malformed.
static std::unique_ptr<ScalesT> scalesOf(Attribute attribute, const SourceTensorT &source) {
  auto given = dyn_cast<DictionaryAttr>(attribute);
  auto type = given ? given.getAs<TypeAttr>("type") : TypeAttr();
  auto block = given ? given.getAs<DenseI64ArrayAttr>("block") : DenseI64ArrayAttr();
  if (!type || !block || block.size() != 2 || block[0] < 1 || block[1] < 1 ||
      !given.getAs<IntegerAttr>("file") || !given.getAs<IntegerAttr>("file_offset") ||
      !isa<FloatType>(type.getValue()))
    return nullptr;
  auto scales = std::make_unique<ScalesT>();
  scales->file = number(given, "file");
  scales->file_offset = number(given, "file_offset");
  scales->dtype = isa<Float8E8M0FNUType>(type.getValue()) ? DType::U8 : dtypeOf(type.getValue());
  scales->block = {block[0], block[1]};
  scales->byte_size = support::byteSize(
      elementType(*scales),
      support::scaleCount(planfile::storedShape(source), block[0], block[1]).value_or(0));
  return scales;
}

LogicalResult PlanWriter::writeSources() {
  for (auto op : module.getOps<graph::SourceOp>()) {
    auto type = cast<RankedTensorType>(op.getType());
    auto source = std::make_unique<SourceTensorT>();
    source->name = op.getSymName().str();
    source->aliases = texts(op.getAliases());
    source->transposed_aliases = texts(op->getAttr("transposed_aliases"));
    source->older_names = texts(op->getAttr("older_names"));
    source->unnamed = op->hasAttr("unnamed");
    if (auto layout = op->getAttrOfType<StringAttr>("source_layout"))
      source->source_layout = layout.str();
    source->shape = type.getShape().vec();
    source->coding = codingOf(type.getElementType());
    source->dtype = source->coding == Coding::Plain ? dtypeOf(type.getElementType()) : DType::U8;
    source->transposed = op->hasAttr("transposed");
    source->file = op.getFile() ? static_cast<int32_t>(*op.getFile()) : -1;
    source->file_offset = op.getFileOffset().value_or(0);
    source->byte_size = support::byteSize(elementType(*source), type.getNumElements());
    if (auto scales = op->getAttr("scales");
        scales && !(source->scales = scalesOf(scales, *source)))
      return op.emitOpError("scales need file, file_offset, type and a block of two sizes, got ")
             << scales;
    source->init = op.getInit() == graph::InitKind::zeros  ? InitKind::Zeros
                   : op.getInit() == graph::InitKind::ones ? InitKind::Ones
                                                           : InitKind::Normal;
    source->init_std = op.getInitStd() ? op.getInitStd()->convertToDouble() : 0;
    sources[source->name] = program.sources.size();
    program.sources.push_back(std::move(source));
  }
  return success();
}

void PlanWriter::writeKernels() {
  auto nested = module.lookupSymbol<ModuleOp>(kKernelsModule);
  if (!nested)
    return;
  for (auto func : nested.getOps<func::FuncOp>()) {
    auto kernel = std::make_unique<KernelT>();
    kernel->name = func.getSymName().str();
    if (auto source = func->getAttrOfType<StringAttr>("plan.source"))
      kernel->source = source.str();
    for (const KernelTarget *target : kCpuTargets)
      if (auto version = module.lookupSymbol<ModuleOp>(kernelsModule(*target)))
        if (auto twin = version.lookupSymbol<func::FuncOp>(kernel->name))
          if (auto count = twin->getAttrOfType<FloatAttr>("plan.instructions"))
            kernel->instructions.push_back(count.getValueAsDouble());
    kernels[kernel->name] = program.kernels.size();
    program.kernels.push_back(std::move(kernel));
  }
}

} // namespace llmc::emit

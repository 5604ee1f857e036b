#include "lib/huggingface/Import.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/huggingface/Architecture.h"
#include "lib/huggingface/DropoutRates.h"
#include "lib/weights/Weights.h"
#include "lib/support/File.h"
#include "lib/support/Safetensors.h"

#include <filesystem>

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;
namespace fs = std::filesystem;

static std::string joined(const std::vector<std::string> &words) {
  std::string out;
  for (const std::string &word : words)
    out += (out.empty() ? "" : ", ") + word;
  return out;
}

// Checks whether layers are mixtures of experts: by the fields that count experts, else by the
// model type.
static bool hasExperts(const support::Json &json, llvm::StringRef type) {
  for (const char *name :
       {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
    if (auto it = json.find(name); it != json.end() && it->is_number() && *it > 1)
      return true;
  static const llvm::StringRef known[] = {"dbrx", "jamba", "llama4", "llama4_text", "minimax", "olmoe"};
  return type.contains("moe") || llvm::is_contained(known, type);
}

// Returns the architecture of the config's model_type, or the error that lists the known ones.
static Result<Architecture> findArchitecture(const support::Json &json) {
  std::string type;
  std::vector<std::string> known;
  if (auto it = json.find("model_type"); it != json.end() && it->is_string())
    type = it->get<std::string>();
  for (const Architecture &architecture : allArchitectures()) {
    if (llvm::is_contained(architecture.modelTypes, type))
      return architecture;
    known.insert(known.end(), architecture.modelTypes.begin(), architecture.modelTypes.end());
  }
  if (type.empty())
    return error("\"model_type\" is missing: expected one of ", joined(known));
  if (hasExperts(json, type))
    return error("\"model_type\": architecture '", type,
                 "' has mixtures of experts of a kind that is not supported: ", joined(known), " are");
  return error("\"model_type\": architecture '", type, "' is not supported: ", joined(known),
               " are");
}

// Notes a config whose `architectures` name no class that has the built model's head.
static void checkClasses(Config &config, const Architecture &architecture) {
  std::vector<std::string> classes = config.texts({"architectures"});
  bool fits = classes.empty() || llvm::any_of(classes, [&](const std::string &name) {
                return llvm::is_contained(architecture.classes, name);
              });
  if (!fits)
    config.note("\"architectures\": '" + joined(classes) + "' is not supported: " +
                joined(architecture.classes) + " is; change the field if the head is that");
}

// Returns the path of the checkpoint beside a config, "" if there is none.
static std::string weightsBeside(const fs::path &config) {
  std::error_code code;
  fs::path folder = config.parent_path().empty() ? "." : config.parent_path();
  if (fs::exists(folder / support::kSafetensorsIndex, code))
    return folder.string();
  for (const char *name : {"model.safetensors", "weights.safetensors"})
    if (fs::exists(folder / name, code))
      return (folder / name).string();
  return "";
}

// Applies --dim, which may bind the batch (else 1) and the sequence of an inference run, and
// notes any other name: of a training step it may bind nothing.
static CompileOptions bindDims(Config &config, CompileOptions options) {
  if (options.infer) {
    options.dp = options.microBatch = 1;
    options.globalBatch = 0;
  }
  for (const auto &[name, value] : options.dims) {
    if (options.infer && name == "batch") {
      options.microBatch = value;
    } else if (options.infer && name == "sequence") {
      if (options.sequence > 0 && options.sequence != value)
        config.note("--dim sequence=" + std::to_string(value) + " contradicts --seq " +
                    std::to_string(options.sequence));
      options.sequence = value;
    } else {
      config.note("--dim " + name +
                  (options.infer ? ": a config has the dimensions batch and sequence"
                                 : ": a config has no named dimensions, use --seq and "
                                   "--micro-batch"));
    }
  }
  return options;
}

// Marks the module as one for inference and its input as batched.
static void markInference(ModuleOp module) {
  auto unit = UnitAttr::get(module.getContext());
  module->setAttr(graph::kMode, StringAttr::get(module.getContext(), "infer"));
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (forward.getArgAttr(i, graph::kInput))
      forward.setArgAttr(i, graph::kBatched, unit);
}

// Adds the rates to what the module says of its model.
static void recordDropout(ModuleOp module, DictionaryAttr rates) {
  NamedAttrList model(module->getAttrOfType<DictionaryAttr>(graph::kModel));
  model.set("dropout", rates);
  module->setAttr(graph::kModel, model.getDictionary(module.getContext()));
}

// Returns the factor of the auxiliary loss of routers: the config's, else that of its class in transformers.
static double routerLoss(Config &config, const support::Json &json) {
  for (const char *name : {"router_aux_loss_coef", "aux_loss_alpha"})
    if (auto it = json.find(name); it != json.end() && !it->is_null()) {
      if (it->is_number() && it->get<double>() >= 0)
        return it->get<double>();
      config.note(config.quoted(name) + " is " + it->dump() + ", expected a number of at least 0");
    }
  return config.text({"model_type"}, "") == "gpt_oss" ? 0.9 : 0.001;
}

// Adds to what the module says of its model the factor of the auxiliary loss of its routers, and whether the
// config asks for that.
static void recordRouterLoss(ModuleOp module, double factor, bool asked) {
  Builder b(module.getContext());
  SmallVector<NamedAttribute> loss = {b.getNamedAttr("factor", b.getF64FloatAttr(factor))};
  if (asked)
    loss.push_back(b.getNamedAttr("asked", b.getUnitAttr()));
  NamedAttrList model(module->getAttrOfType<DictionaryAttr>(graph::kModel));
  model.set("router_loss", b.getDictionaryAttr(loss));
  module->setAttr(graph::kModel, model.getDictionary(module.getContext()));
}

// Returns one line for each kind of field that a user may rely on and that has no effect here.
static std::vector<std::string> notesOf(Config &config, const CompileOptions &options,
                                        const std::string &unusedQuantization, bool mixes, bool asksForRouterLoss) {
  std::vector<std::string> notes;
  std::vector<std::string> rates = statedDropout(config);
  bool chosen = options.dropout || options.configDropout || options.infer;
  if (!rates.empty() && !chosen)
    notes.push_back("trains without dropout, for which the config has rates (" + joined(rates) +
                    "): --dropout config takes them, --dropout 0 says that none is meant");
  if (asksForRouterLoss && !options.infer && !options.moeBalance)
    notes.push_back("trains with an auxiliary loss of routers, for which \"output_router_logits\" asks: --moe-balance "
                    "aux says that it is meant, --moe-balance none leaves it out");
  if (int64_t dense = config.index({"first_k_dense_replace"}, 0); dense > 0 && !mixes)
    notes.push_back("no layer has experts, since \"first_k_dense_replace\" " + std::to_string(dense) +
                    " makes all layers dense");
  if (!unusedQuantization.empty())
    notes.push_back("\"quantization_config\" (" + unusedQuantization +
                    ") is not used: no weights are read, all are drawn");
  return notes;
}

// Returns the config to write beside saved weights: without `quantization_config`, since these
// are not quantised.
static std::string savedConfig(const std::string &text) {
  auto json = support::OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.erase("quantization_config"))
    return text;
  return support::jsonText(json, 2) + "\n";
}

static Result<OwningOpRef<ModuleOp>> import(MLIRContext &context, const fs::path &path,
                                            const CompileOptions &given) {
  std::string file = path.string();
  auto text = support::readFile(file);
  if (!text)
    return text.takeError();
  auto json = support::parseJson(*text, file);
  if (!json)
    return json.takeError();
  if (!json->is_object())
    return error(file, ": expected a JSON object");
  auto architecture = findArchitecture(*json);
  if (!architecture)
    return error(file, ": ", architecture.message());
  Config config(*json);
  CompileOptions options = bindDims(config, given);
  checkClasses(config, *architecture);
  if (options.batchRows() <= 0)
    config.note("the micro-batch must be positive, got " + std::to_string(options.microBatch));
  std::string weights = options.weights.empty() ? weightsBeside(path) : options.weights;
  bool reads = !weights.empty() && weights != "random";
  auto quantization = support::Quantization::of(*json);
  if (!quantization)
    config.note(quantization.message());
  BuiltModel model = architecture->build(context, config, options);
  DictionaryAttr rates =
      options.configDropout ? dropoutRates(context, config, config.text({"model_type"}, "")) : DictionaryAttr();
  double lossOfRouters = routerLoss(config, *json);
  bool asks = lossOfRouters > 0 && config.flag({"output_router_logits"}, false);
  if (!config.problems().empty())
    return error(file, ": ", architecture->modelTypes.front(),
                 " cannot be built:", config.problems());
  weights::ModelFacts facts{
      weights::modelName(file), file,          savedConfig(*text), model.sequence,
      model.vocabulary,         model.context, options.batchRows(),    model.activeParameters, model.layerKinds};
  weights::describeModule(*model.module, facts, {});
  weights::addSpellings(*model.module, model.spellings);
  if (rates)
    recordDropout(*model.module, rates);
  bool mixes = (*model.module).walk([](graph::RouteOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (mixes)
    recordRouterLoss(*model.module, lossOfRouters, asks);
  std::string unused = !reads && *quantization ? (*quantization)->method : "";
  for (const std::string &note : notesOf(config, options, unused, mixes, asks && mixes))
    emitRemark(UnknownLoc::get(&context)) << file << ": " << note;
  if (options.infer)
    markInference(*model.module);
  if (reads && !model.stacks.empty())
    if (Status s = weights::useStacks(*model.module, weights, model.stacks); !s)
      return s.takeError();
  if (reads)
    if (Status s = weights::bindWeights(*model.module, weights, options.progress, *quantization);
        !s)
      return s.takeError();
  return std::move(model.module);
}

OwningOpRef<ModuleOp> llmc::importConfig(MLIRContext &context, llvm::StringRef path,
                                         const CompileOptions &options) {
  std::error_code code;
  fs::path file(path.str());
  if (fs::is_directory(file, code))
    file /= "config.json";
  auto module =
      fs::exists(file, code)
          ? import(context, file, options)
          : Result<OwningOpRef<ModuleOp>>(error(file.string(), ": there is no such file"));
  if (module)
    return std::move(*module);
  emitError(UnknownLoc::get(&context), module.message());
  return {};
}

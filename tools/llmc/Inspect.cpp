// Implements llmc inspect: the contents of a model or of a compiled program.
#include "dialects/graph/GraphAttrs.h"
#include "tools/llmc/Commands.h"
#include "tools/llmc/Diagnostics.h"

#include "dialects/graph/Graph.h"
#include "lib/weights/Weights.h"
#include "lib/pipeline/Dump.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"
#include "lib/planfile/Retry.h"
#include "lib/report/DeviceReport.h"
#include "lib/report/Report.h"
#include "lib/support/Counted.h"
#include "lib/support/Json.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"
#include <nlohmann/json.hpp>

namespace llmc {
using namespace mlir;
using support::counted;
namespace {

// Inspects a program made by llmc, by its plan alone.
int inspectProgram(const planfile::Payload &payload, const CommandLine &line) {
  auto bytes = payload.section(planfile::kPlanSection);
  if (!bytes) {
    llvm::errs() << "llmc: error: " << line.options.model << ": " << bytes.message() << "\n";
    return 1;
  }
  auto program = planfile::readProgram(*bytes);
  if (!program) {
    llvm::errs() << "llmc: error: " << line.options.model << ": " << program.message() << "\n";
    return 1;
  }
  auto retry = planfile::readRetry(payload);
  if (!retry) {
    llvm::errs() << "llmc: error: " << line.options.model << ": " << retry.message() << "\n";
    return 1;
  }
  auto images = planfile::readDeviceImages(payload, **program);
  if (!images) {
    llvm::errs() << "llmc: error: " << line.options.model << ": " << images.message() << "\n";
    return 1;
  }
  if (line.json) {
    nlohmann::json json = report::inspectJson(**program, payload.fileSize(), retry->get());
    json["cuda"] = report::deviceJson(**program, *images);
    llvm::outs() << support::jsonText(json, 2) << "\n";
  } else {
    llvm::outs() << report::inspectText(**program, payload.fileSize(), retry->get())
                 << report::deviceText(**program, *images);
  }
  return 0;
}

std::string numpyName(Type type) {
  if (type.isInteger(1))
    return "bool";
  unsigned bits = type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 0;
  return (type.isIntOrIndex() ? "int" : "float") + std::to_string(bits);
}

// Returns the arguments or results of @forward that carry `key`, as name, dtype and shape.
nlohmann::json describeBindings(ArrayAttr attributes, TypeRange types, llvm::StringRef key) {
  nlohmann::json list = nlohmann::json::array();
  for (unsigned i = 0; attributes && i < attributes.size(); ++i) {
    auto name = cast<DictionaryAttr>(attributes[i]).getAs<StringAttr>(key);
    auto type = dyn_cast<RankedTensorType>(types[i]);
    if (name && type)
      list.push_back({{"name", name.str()},
                      {"dtype", numpyName(type.getElementType())},
                      {"shape", type.getShape().vec()}});
  }
  return list;
}

nlohmann::json describeModel(ModuleOp module) {
  nlohmann::json json;
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  auto integer = [&](llvm::StringRef key) {
    auto attr = model ? model.getAs<IntegerAttr>(key) : IntegerAttr();
    return attr ? attr.getInt() : 0;
  };
  uint64_t parameters = 0;
  std::vector<std::string> names;
  llvm::StringSet<> used;
  for (auto state : module.getOps<graph::StateOp>()) {
    parameters += cast<RankedTensorType>(state.getType()).getNumElements();
    if (auto views = state.getViews())
      for (auto view : views->getAsRange<graph::ViewAttr>())
        if (used.insert(view.getSource().getValue()).second)
          names.push_back(view.getSource().getValue().str());
  }
  json["model"] = {{"name", model && model.get("name") ? model.getAs<StringAttr>("name").str() : ""},
                   {"parameters", parameters},
                   {"layers", integer("layers")},
                   {"sequence", integer("sequence")},
                   {"vocabulary", integer("vocabulary")}};
  if (int64_t active = integer("active_parameters"))
    json["model"]["active_parameters"] = active;
  nlohmann::json blocks = nlohmann::json::array(), constants = nlohmann::json::array();
  if (auto list = model ? model.getAs<ArrayAttr>("blocks") : ArrayAttr())
    for (auto block : list.getAsRange<StringAttr>())
      blocks.push_back(block.str());
  auto mode = module->getAttrOfType<StringAttr>(graph::kMode);
  json["mode"] = mode ? mode.str() : "train";
  json["inputs"] = json["outputs"] = nlohmann::json::array();
  if (auto forward = module.lookupSymbol<func::FuncOp>("forward")) {
    json["inputs"] = describeBindings(forward.getArgAttrsAttr(), forward.getArgumentTypes(),
                                      graph::kInput);
    json["outputs"] = describeBindings(forward.getResAttrsAttr(), forward.getResultTypes(),
                                       graph::kOutput);
  }
  json["model"]["blocks"] = blocks;
  if (auto list = module->getAttrOfType<ArrayAttr>(graph::kConstants))
    for (auto name : list.getAsRange<StringAttr>())
      constants.push_back(name.str());
  json["parameters"] = names;
  json["parameter_shapes"] = json["parameter_types"] = nlohmann::json::object();
  SymbolTable symbols(module); // one for each expert of each layer is too many to search
  for (const std::string &name : names)
    if (auto source = symbols.lookup<graph::SourceOp>(name)) {
      json["parameter_shapes"][name] = cast<ShapedType>(source.getType()).getShape().vec();
      if (std::string stored = weights::storedText(source); !stored.empty())
        json["parameter_types"][name] = stored;
    }
  json["constants"] = constants;
  return json;
}

int inspectModel(const CommandLine &line) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  TerminalDiagnostics diagnostics(&context, line.options.model, line.verbosity);
  OwningOpRef<ModuleOp> module = readModel(context, line.options);
  if (!module || failed(runPhases(*module, line.options, Phase::Import, Phase::Raise)))
    return 1;
  nlohmann::json json = describeModel(*module);
  if (line.json) {
    llvm::outs() << support::jsonText(json, 2) << "\n";
    return 0;
  }
  const auto &model = json["model"];
  llvm::outs() << line.options.model << ": "
               << counted(model["parameters"].get<uint64_t>(), "parameter")
               << (model.contains("active_parameters")
                       ? " (" + std::to_string(model["active_parameters"].get<int64_t>()) + " for each token), "
                       : ", ")
               << counted(model["layers"].get<int64_t>(), "layer") << ", vocabulary "
               << model["vocabulary"].get<int64_t>() << ", sequence "
               << model["sequence"].get<int64_t>() << "\n";
  auto list = [&](llvm::StringRef title, const nlohmann::json &items) {
    llvm::outs() << title << " (" << items.size() << ")\n";
    for (const auto &item : items)
      llvm::outs() << "  " << item.get<std::string>() << "\n";
  };
  auto bindings = [&](llvm::StringRef title, const nlohmann::json &items) {
    llvm::outs() << title << " (" << items.size() << ")\n";
    for (const auto &item : items)
      llvm::outs() << "  " << item["name"].get<std::string>() << "  "
                   << item["dtype"].get<std::string>() << " " << item["shape"].dump() << "\n";
  };
  bindings("inputs", json["inputs"]);
  bindings("outputs", json["outputs"]);
  list("blocks", model["blocks"]);
  llvm::outs() << "parameters (" << json["parameters"].size() << ")\n";
  for (const auto &name : json["parameters"])
    llvm::outs() << "  " << name.get<std::string>() << "  "
                 << json["parameter_shapes"][name.get<std::string>()].dump() << "\n";
  list("constants", json["constants"]);
  return 0;
}

} // namespace

int runInspect(const CommandLine &line) {
  const std::string &path = line.options.model;
  auto fail = [&](const std::string &message) {
    llvm::errs() << "llmc: error: " << message << "\n";
    return 1;
  };
  if (isDump(path))
    return fail(path + ": is IR between two phases of a compilation; inspect takes a model, or the "
                       "program that llmc compile " + path + " -o OUT makes of it");
  if (auto payload = planfile::Payload::open(path)) {
    for (const std::string &flag : line.given)
      if (flag != "--json")
        return fail(path + ": " + flag + " is for models; this program has its choices");
    return inspectProgram(*payload, line);
  } else if (llvm::StringRef(payload.message()).contains("is damaged") ||
             llvm::StringRef(payload.message()).contains("carries no program")) {
    return fail(payload.message());
  }
  return inspectModel(line);
}

} // namespace llmc

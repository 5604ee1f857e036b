#include "RunCase.h"

#include "dialects/graph/Evaluate.h"
#include "lib/onnx/Import.h"
#include "lib/support/ElementType.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace llmc;
using namespace llmc::test;
using namespace llmc::onnximport;
using namespace mlir;
using llmc::support::error;
using llmc::support::Status;
using llmc::support::text;
namespace fs = std::filesystem;

namespace {

// The suite's own (onnx/backend/test/loader).
constexpr double relative = 1e-3, absolute = 1e-7;

// A file that goes with its owner.
class TemporaryModel {
public:
  explicit TemporaryModel(const ::onnx::ModelProto &model)
      : path_(fs::temp_directory_path() / ("llmc-case-" + std::to_string(::getpid()) + ".onnx")) {
    std::ofstream out(path_, std::ios::binary);
    model.SerializeToOstream(&out);
  }
  ~TemporaryModel() {
    std::error_code code;
    fs::remove(path_, code);
  }
  std::string path() const { return path_.string(); }

private:
  fs::path path_;
};

graph::Tensor tensorOf(const HostTensor &in) {
  graph::Tensor out(std::vector<int64_t>(in.shape.begin(), in.shape.end()));
  for (int64_t i = 0; i < in.size(); ++i)
    out.data[i] = in.number(i);
  return out;
}

support::ElementType elementTypeOf(Type type) {
  return type.isF16()    ? support::ElementType::F16
         : type.isBF16() ? support::ElementType::BF16
         : type.isF64()  ? support::ElementType::F64
                         : support::ElementType::F32;
}

// A weight, from the bytes in the model's file that its state is a view of.
graph::Tensor weightOf(ModuleOp module, graph::StateOp state) {
  auto view = cast<graph::ViewAttr>((*state.getViews())[0]);
  auto source = module.lookupSymbol<graph::SourceOp>(view.getSource());
  auto file = cast<DictionaryAttr>(
      module->getAttrOfType<ArrayAttr>("graph.files")[*source.getFile()]);
  auto stored = cast<ShapedType>(source.getType());
  support::ElementType element = elementTypeOf(stored.getElementType());
  std::vector<char> bytes(stored.getNumElements() * support::byteSize(element));
  std::ifstream in(file.getAs<StringAttr>("path").str(), std::ios::binary);
  in.seekg(*source.getFileOffset());
  in.read(bytes.data(), bytes.size());
  auto shape = cast<RankedTensorType>(state.getType()).getShape();
  graph::Tensor out(shape.vec());
  forEachElement(shape, {Shape(view.getStrides())}, [&](int64_t n, llvm::ArrayRef<int64_t> at) {
    out.data[n] = support::readAsDouble(element, bytes.data(), view.getOffset() + at[0]);
  });
  return out;
}

Status runModule(ModuleOp module, const NodeCase &test) {
  auto func = module.lookupSymbol<func::FuncOp>("forward");
  std::map<std::string, size_t> places;
  for (int i = 0; i < test.model.graph().input_size(); ++i)
    places[test.model.graph().input(i).name()] = i;
  std::vector<graph::Tensor> inputs;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto name = func.getArgAttrOfType<StringAttr>(i, "graph.input");
    if (name && !places.count(name.str()))
      return error("has an argument '", name.str(), "' that is no input");
    auto state = func.getArgAttrOfType<FlatSymbolRefAttr>(i, "graph.state");
    inputs.push_back(name ? tensorOf(test.inputs[places[name.str()]])
                          : weightOf(module, module.lookupSymbol<graph::StateOp>(state.getValue())));
  }
  auto results = graph::evaluate(func, inputs);
  if (failed(results))
    return error("cannot be evaluated");
  if (results->size() != test.outputs.size())
    return error("has ", results->size(), " results, expected ", test.outputs.size());
  for (size_t i = 0; i < results->size(); ++i) {
    std::string difference = compare(test.outputs[i], (*results)[i].shape, (*results)[i].data);
    if (!difference.empty())
      return error("output ", i, " ", difference);
  }
  return support::ok();
}

Status run(const NodeCase &test) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      message += (message.empty() ? "" : "; ") + diagnostic.str();
  });
  TemporaryModel file(test.model);
  CompileOptions options;
  options.infer = true;
  auto module = importOnnx(context, file.path(), options);
  if (!module || failed(mlir::verify(*module))) {
    if (size_t at = message.find(file.path()); at != std::string::npos)
      message.replace(at, file.path().size() + 2, "");
    return error(module ? "does not verify: " : "", message);
  }
  return runModule(*module, test);
}

} // namespace

std::string llmc::test::compare(const HostTensor &expected, llvm::ArrayRef<int64_t> shape,
                                llvm::ArrayRef<double> got) {
  if (llvm::ArrayRef<int64_t>(expected.shape) != shape)
    return "has shape " + toText(shape) + ", expected " + toText(expected.shape);
  HostTensor rounded(expected.element, expected.shape);
  for (int64_t i = 0; i < expected.size(); ++i) {
    rounded.set(i, got[i]);
    double g = rounded.number(i), e = expected.number(i);
    bool close = expected.isFloat() ? std::fabs(g - e) <= absolute + relative * std::fabs(e) : g == e;
    if (!close && g != e && !(std::isnan(g) && std::isnan(e)))
      return text("is ", g, " at ", i, ", expected ", e);
  }
  return {};
}

Judged llmc::test::judge(const std::string &path) {
  Judged out;
  out.name = fs::path(path).stem().string();
  auto test = readCase(path);
  if (!test) {
    out.verdict = Verdict::Unsupported;
    out.reason = test.message();
    out.ops = opsOf(path);
    return out;
  }
  out.ops = test->ops();
  Status plain = run(*test);
  if (plain)
    out.verdict = Verdict::Passed;
  else
    out.reason = plain.message();
  if (!plain && bakeShapes(*test) != 0) {
    Status baked = run(*test);
    if (baked)
      out.verdict = Verdict::Baked;
    else
      out.reason = baked.message();
  }
  if (out.verdict == Verdict::Failed)
    return out;
  bakeAll(*test);
  if (Status folded = run(*test); !folded)
    out.folding = folded.message();
  return out;
}

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

struct Ran {
  Verdict verdict;
  std::string reason;
};

Ran run(const NodeCase &test) {
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
  if (!module) {
    if (size_t at = message.find(file.path()); at != std::string::npos)
      message.replace(at, file.path().size() + 2, "");
    if (message.empty())
      return {Verdict::Wrong, "is refused without a reason"};
    return {test.unknownOps().empty() ? Verdict::Refused : Verdict::Unsupported, message};
  }
  if (failed(mlir::verify(*module)))
    return {Verdict::Wrong, "does not verify: " + message};
  Status status = runModule(*module, test);
  return status ? Ran{Verdict::Passed, ""} : Ran{Verdict::Wrong, status.message()};
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
  auto [test, problem] = readCase(path);
  out.ops = test.given;
  Ran plain = run(test);
  out.verdict = plain.verdict;
  out.reason = plain.reason;
  if (!problem.empty()) {
    // There is nothing to compare with, so that what is imported is not known to be right.
    if (plain.verdict == Verdict::Passed || plain.verdict == Verdict::Wrong)
      out.verdict = Verdict::Wrong, out.reason = "is imported, with " + problem;
    return out;
  }
  if (plain.verdict != Verdict::Passed && bakeShapes(test) != 0) {
    Ran baked = run(test);
    bool isWrong = plain.verdict == Verdict::Wrong;
    out.verdict = baked.verdict == Verdict::Passed ? (isWrong ? Verdict::Wrong : Verdict::Baked)
                                                   : baked.verdict;
    out.reason = isWrong ? plain.reason : baked.reason;
  }
  if (out.verdict == Verdict::Passed && test.hasStrings)
    out.verdict = Verdict::Baked;
  if (out.verdict != Verdict::Passed && out.verdict != Verdict::Baked)
    return out;
  bakeAll(test);
  Ran folded = run(test);
  out.folding = folded.reason;
  if (folded.verdict == Verdict::Wrong)
    out.verdict = Verdict::Wrong, out.reason = "all inputs constant: " + folded.reason;
  return out;
}

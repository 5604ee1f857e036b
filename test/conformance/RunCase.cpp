#include "RunCase.h"

#include "dialects/graph/Evaluate.h"
#include "lib/onnx/Import.h"
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

Status runModule(func::FuncOp func, const NodeCase &test) {
  std::map<std::string, size_t> places;
  for (int i = 0; i < test.model.graph().input_size(); ++i)
    places[test.model.graph().input(i).name()] = i;
  std::vector<graph::Tensor> inputs;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto name = func.getArgAttrOfType<StringAttr>(i, "graph.input");
    if (!name || !places.count(name.str()))
      return error("has an argument that is no input");
    inputs.push_back(tensorOf(test.inputs[places[name.str()]]));
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
  return runModule(module->lookupSymbol<func::FuncOp>("forward"), test);
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

Judged llmc::test::judge(const std::string &folder) {
  Judged out;
  out.name = fs::path(folder).filename().string();
  auto test = readCase(folder);
  if (!test) {
    out.verdict = Verdict::Unsupported;
    out.reason = test.message();
    out.ops = opsOf(folder);
    return out;
  }
  out.ops = test->ops();
  Status plain = run(*test);
  if (plain) {
    out.verdict = Verdict::Passed;
    return out;
  }
  out.reason = plain.message();
  if (bakeShapes(*test) == 0)
    return out;
  Status baked = run(*test);
  if (baked)
    out.verdict = Verdict::Baked;
  else
    out.reason = baked.message();
  return out;
}

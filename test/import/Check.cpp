// Imports files, and reads what a test compares with the result.
#include "Check.h"

#include "lib/huggingface/Import.h"
#include "lib/onnx/Import.h"
#include "lib/support/Npy.h"
#include "mlir/IR/Diagnostics.h"
#include "test/support/CommandLine.h"

#include <fstream>

using namespace llmc;
using namespace mlir;

std::vector<std::vector<std::string>> test::argumentsAfter(const std::string &flag) {
  const std::vector<std::string> &all = arguments();
  if (all.empty() || all[0] != flag)
    return {};
  return {all};
}

std::string test::dataPath(const std::string &name) { return LLMC_TEST_DATA "/" + name; }

CompileOptions test::optionsFor(int64_t batch, int64_t sequence) {
  CompileOptions options;
  options.microBatch = batch;
  options.sequence = sequence;
  return options;
}

OwningOpRef<ModuleOp> test::import(MLIRContext &context, const std::string &path,
                                   const CompileOptions &options, std::string &message) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) {
    message += d.str();
    return success();
  });
  return llvm::StringRef(path).ends_with(".onnx") ? importOnnx(context, path, options)
                                                  : importConfig(context, path, options);
}

graph::Tensor test::readNpy(const std::string &path) {
  auto file = support::NpyFile::open(path);
  EXPECT_TRUE(bool(file)) << "reads " + path;
  if (!file)
    return {};
  graph::Tensor out(file->shape());
  for (int64_t i = 0; i < out.size(); ++i)
    out.data[i] = support::readAsDouble(file->type(), file->data(), i);
  return out;
}

static support::ElementType typeOf(Type element) {
  return element.isF16()    ? support::ElementType::F16
         : element.isBF16() ? support::ElementType::BF16
         : element.isF64()  ? support::ElementType::F64
                            : support::ElementType::F32;
}

// Appends the elements of a view of `shape` to `out`, read from the file that its source names.
static void readView(ModuleOp module, graph::ViewAttr view, llvm::ArrayRef<int64_t> shape,
                     std::vector<double> &out) {
  auto source = module.lookupSymbol<graph::SourceOp>(view.getSource());
  auto file = cast<DictionaryAttr>(
      module->getAttrOfType<ArrayAttr>("graph.files")[*source.getFile()]);
  std::ifstream in(file.getAs<StringAttr>("path").str(), std::ios::binary);
  auto stored = cast<ShapedType>(source.getType());
  support::ElementType element = typeOf(stored.getElementType());
  std::vector<char> whole(stored.getNumElements() * support::byteSize(element));
  in.seekg(*source.getFileOffset());
  in.read(whole.data(), whole.size());
  EXPECT_TRUE(bool(in)) << "reads source " + source.getSymName().str();
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t left = ShapedType::getNumElements(shape); left > 0; --left) {
    int64_t at = view.getOffset();
    for (size_t d = 0; d < index.size(); ++d)
      at += index[d] * view.getStrides()[d];
    out.push_back(support::readAsDouble(element, whole.data(), at));
    for (size_t d = index.size(); d-- > 0 && ++index[d] == shape[d];)
      index[d] = 0;
  }
}

graph::Tensor test::readState(ModuleOp module, graph::StateOp state) {
  llvm::ArrayRef<int64_t> shape = cast<RankedTensorType>(state.getType()).getShape();
  graph::Tensor out(shape.vec());
  out.data.clear();
  for (auto view : state.getViews()->getAsRange<graph::ViewAttr>())
    readView(module, view, shape.drop_front(state.getViewedDims()), out.data);
  return out;
}

std::vector<graph::Tensor> test::arguments(ModuleOp module, const graph::Tensor &ids) {
  auto func = module.lookupSymbol<func::FuncOp>("forward");
  std::vector<graph::Tensor> out = {ids};
  for (unsigned i = 1; i < func.getNumArguments(); ++i) {
    auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(i, "graph.state");
    out.push_back(readState(module, module.lookupSymbol<graph::StateOp>(name.getValue())));
  }
  return out;
}

size_t test::count(ModuleOp module, llvm::StringRef op) {
  size_t n = 0;
  module.walk([&](Operation *o) { n += o->getName().getStringRef() == op; });
  return n;
}

// Tests of lib/onnx and lib/huggingface. Prints "N passed, N failed".
#include "Check.h"

#include "lib/huggingface/Import.h"
#include "lib/onnx/Import.h"
#include "lib/support/Npy.h"
#include "mlir/IR/Diagnostics.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

using namespace llmc;
using namespace mlir;

static int good = 0, bad = 0;

static test::Case *innermost = nullptr;

test::Case::Case(std::string name) : name_(std::move(name)), outer_(innermost) {
  if (outer_)
    ++outer_->inner_;
  innermost = this;
}

test::Case::~Case() {
  innermost = outer_;
  if (!checks_ && !inner_)
    check(false, name_ + " checks nothing");
  if (checks_)
    ++(failures_ ? bad : good);
}

bool test::check(bool holds, const std::string &what) {
  if (!holds)
    std::printf("FAILED: %s%s%s\n", innermost ? innermost->name_.c_str() : "", innermost ? ": " : "",
                what.c_str());
  if (!innermost) // belongs to no test
    bad += !holds;
  else
    ++innermost->checks_, innermost->failures_ += !holds;
  return holds;
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
  if (!check(bool(file), "reads " + path))
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

graph::Tensor test::readState(ModuleOp module, graph::StateOp state) {
  auto view = cast<graph::ViewAttr>((*state.getViews())[0]);
  auto source = module.lookupSymbol<graph::SourceOp>(view.getSource());
  auto file = cast<DictionaryAttr>(
      module->getAttrOfType<ArrayAttr>("graph.files")[*source.getFile()]);
  std::ifstream in(file.getAs<StringAttr>("path").str(), std::ios::binary);
  auto stored = cast<ShapedType>(source.getType());
  support::ElementType element = typeOf(stored.getElementType());
  std::vector<char> whole(stored.getNumElements() * support::byteSize(element));
  in.seekg(*source.getFileOffset());
  in.read(whole.data(), whole.size());
  test::check(bool(in), "reads source " + source.getSymName().str());
  auto type = cast<RankedTensorType>(state.getType());
  graph::Tensor out(std::vector<int64_t>(type.getShape()));
  std::vector<int64_t> index(type.getRank(), 0);
  for (double &value : out.data) {
    int64_t at = view.getOffset();
    for (size_t d = 0; d < index.size(); ++d)
      at += index[d] * view.getStrides()[d];
    value = support::readAsDouble(element, whole.data(), at);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == out.shape[d];)
      index[d] = 0;
  }
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

int main(int count, char **arguments) {
  // Extra runs: --model FILE IDS.npy LOGITS.npy compares the first row.
  if (count == 5 && !std::strcmp(arguments[1], "--model")) {
    test::compareModel(arguments[2], arguments[3], arguments[4]);
    std::printf("%d passed, %d failed\n", good, bad);
    return bad != 0;
  }
  // --infer MODEL FOLDER LIMIT NAME=SIZE...: FOLDER holds inputs/ and expected/.
  if (count >= 5 && !std::strcmp(arguments[1], "--infer")) {
    std::map<std::string, int64_t> dims;
    for (int i = 5; i < count; ++i)
      if (char *equal = std::strrchr(arguments[i], '='))
        dims[std::string(arguments[i], equal)] = std::atoll(equal + 1);
    test::compareInference(arguments[2], arguments[3], dims, std::atof(arguments[4]));
    std::printf("%d passed, %d failed\n", good, bad);
    return bad != 0;
  }
  int draws = 60;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    if (!std::strcmp(arguments[i], "--draws"))
      draws = std::atoi(arguments[i + 1]);
    if (!std::strcmp(arguments[i], "--seed"))
      seed = std::strtoull(arguments[i + 1], nullptr, 10);
  }
  test::testModels();
  test::testFolding();
  test::testSmallGraphs();
  test::testExports();
  test::testLearned();
  test::testPrograms();
  test::testFunctions();
  test::testInference();
  test::testStoredTensors();
  test::testAnnotations();
  test::testCheckpoints();
  test::testArchitectures();
  test::testRefusals();
  test::testMutations(draws, seed);
  std::printf("%d passed, %d failed\n", good, bad);
  return bad != 0;
}

// What the file says about devices (ONNX IR 11): where tensors are cut and which
// pipeline stage a node belongs to.
#ifndef LLMC_LIB_ONNX_FILE_ANNOTATIONS_H
#define LLMC_LIB_ONNX_FILE_ANNOTATIONS_H

#include "lib/onnx/file/NodeOrder.h"
#include "lib/pipeline/Options.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::onnximport {

struct WeightAnnotation {
  std::string node;                        // the first that says so
  std::set<int64_t> stages;                // pipeline stages; a tied weight has two
  std::vector<int64_t> cuts;               // parts of each dim, 0 where nothing is said; or empty
};

// A value that is no weight, as one node wants it.
struct ValueAnnotation {
  std::string node, value;
  std::vector<std::pair<int64_t, int64_t>> cuts; // axis (may be negative), parts > 1
};

struct Annotations {
  std::map<unsigned, WeightAnnotation> weights; // by stored tensor
  std::vector<ValueAnnotation> values;
  std::vector<std::string> notes;               // what is not used, one line each
};

// Takes the configuration with as many devices as the mesh has ranks; without one
// nothing is used, and a note says so. Fails, naming node and tensor, where the
// mesh cannot have what is asked for: a weight cut in another number of parts
// than tp, a value in one that is neither dp (dim 0) nor tp, a stage beyond pp, two
// nodes that cut a weight differently.
support::Result<Annotations> readAnnotations(const Model &model, const NodeOrder &order,
                                             const CompileOptions &options);

// Records them on the sources of the module: `graph.annotation`, a dictionary of
// node, stages and cuts. Phase 3 follows both.
void writeAnnotations(mlir::ModuleOp module, const Model &model, const Annotations &annotations);

// A value that an annotation cuts, where the graph has computed it.
struct AnnotatedValue {
  mlir::Value value;
  const ValueAnnotation *annotation;
};

// What is said about values, said about the weights that a cut of them comes from or goes
// to by the ops' sharding rules, in addition to what is written there: a product is cut as the
// columns of its weight. Dims of a value that are not cut are whole. Parameters
// are bound to states by now. Fails, naming nodes and tensors, for a cut that no weight
// can follow (batch rows apart, which are dp's), and where weights are wanted otherwise.
support::Status followValues(mlir::func::FuncOp forward, llvm::ArrayRef<AnnotatedValue> values,
                             const CompileOptions &options);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_ANNOTATIONS_H

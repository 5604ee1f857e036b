// Reads the device annotations of a file (ONNX IR 11): how tensors are sharded, and the pipeline
// stages of nodes. Tested by test/import/Annotations.cpp.
#ifndef LLMC_LIB_ONNX_FILE_ANNOTATIONS_H
#define LLMC_LIB_ONNX_FILE_ANNOTATIONS_H

#include "lib/onnx/file/NodeOrder.h"
#include "lib/options/Options.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::onnximport {

// Holds the annotations of a weight.
struct WeightAnnotation {
  std::string node;                        // the first node that annotates it
  std::set<int64_t> stages;                // pipeline stages; a tied weight has two
  std::vector<int64_t> cuts;               // shards of each dim, 0: not annotated; or empty
};

// Holds one node's annotation of a value that is not a weight.
struct ValueAnnotation {
  std::string node, value;
  std::vector<std::pair<int64_t, int64_t>> cuts; // dim (may be negative), shards > 1
};

// Holds all annotations of a file that are used.
struct Annotations {
  std::map<unsigned, WeightAnnotation> weights; // by stored tensor
  std::vector<ValueAnnotation> values;
  std::vector<std::string> notes;               // annotations that are ignored, one line each
};

// Reads the annotations of the configuration with as many devices as the mesh has ranks; without
// such a configuration the result holds only a note. Fails, naming node and tensor, if the mesh
// cannot provide what an annotation asks for: a number of shards other than tp (for dim 0 of a
// value, dp too), a stage that is not below pp, or two nodes that shard a weight differently.
support::Result<Annotations> readAnnotations(const Model &model, const NodeOrder &order,
                                             const CompileOptions &options);

// Sets `graph.annotation`, a dictionary of node, stages and cuts, on the sources of annotated
// weights. Phase 3 follows stages and cuts.
void writeAnnotations(mlir::ModuleOp module, const Model &model, const Annotations &annotations);

// Pairs an annotation with the value of @forward that it shards.
struct AnnotatedValue {
  mlir::Value value;
  const ValueAnnotation *annotation;
};

// Propagates annotations of values, along the ops' sharding rules, to the weights that are
// sharded with them, and adds them to `graph.annotation` there: a product is sharded as the
// columns of its weight. Dims of a value without an annotation are whole. Arguments must be bound
// to states already. Fails, naming nodes and tensors, if no weight and no input is sharded with
// a value, if an input would be sharded in other than its rows over dp, and if annotations of a
// weight conflict.
support::Status followValues(mlir::func::FuncOp forward, llvm::ArrayRef<AnnotatedValue> values,
                             const CompileOptions &options);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_ANNOTATIONS_H

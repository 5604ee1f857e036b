// How a module in phase 3 says where its tensors lie: discardable attributes on
// ops, and what they mean. The only place that knows their spelling.
//
//   parallel.in  = [sharding per operand]      what an op needs
//   parallel.out = [sharding per result]       what it defines
//   parallel.args = [sharding per body arg]    of a repeat
//   parallel.sharding                          of a function argument or a state
//
// What is not annotated is replicated.
#ifndef LLMC_DIALECTS_PARALLEL_ANNOTATIONS_H
#define LLMC_DIALECTS_PARALLEL_ANNOTATIONS_H

#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::parallel {

using graph::kBackward;
using graph::kBatched;
using graph::kInput;
using graph::kOutput;
using graph::kState;

inline constexpr llvm::StringLiteral kMesh = "parallel.mesh";
inline constexpr llvm::StringLiteral kIn = "parallel.in";
inline constexpr llvm::StringLiteral kOut = "parallel.out";
inline constexpr llvm::StringLiteral kArgs = "parallel.args";
inline constexpr llvm::StringLiteral kSharding = "parallel.sharding";
inline constexpr llvm::StringLiteral kOrigin = "parallel.origin";
// Of a module: the tactic of each axis that is cut over.
inline constexpr llvm::StringLiteral kTactics = "parallel.tactics";
// Of a module: what each op of the model computes on and why, for people (DescribeOps).
inline constexpr llvm::StringLiteral kOps = "parallel.ops";
inline constexpr llvm::StringLiteral kStage = "parallel.stage";
inline constexpr llvm::StringLiteral kStages = "parallel.stages";
inline constexpr llvm::StringLiteral kLayers = "parallel.layers";
// Of a module: how many layers of the model each stage runs (its repeats may hold several each).
inline constexpr llvm::StringLiteral kStageLayers = "parallel.stage_layers";
inline constexpr llvm::StringLiteral kBorder = "parallel.border";
inline constexpr llvm::StringLiteral kResidual = "parallel.residual";
// Of an op that looks something up: the dimension that it indexes is not to be cut.
inline constexpr llvm::StringLiteral kWhole = "parallel.whole";
// Of a stage's function: which of the stage's chunks of layers it runs; 0 if not said.
inline constexpr llvm::StringLiteral kChunk = "parallel.chunk";
inline constexpr llvm::StringLiteral kProcedure = "parallel.procedure";
// Of a result: its shape without padding, if it has any.
inline constexpr llvm::StringLiteral kValidShape = "parallel.valid_shape";

using Axes = llvm::SmallVector<mlir::StringAttr, 2>;

// The mesh of the module around `op`; null if it has none.
MeshAttr getMesh(mlir::Operation *op);
// Does the module run a model once, instead of a step that trains it?
bool isInference(mlir::ModuleOp module);
// What a micro-batch runs before it is split into stages: @micro of a training
// step, @forward of an inference. Null if it is not there.
mlir::func::FuncOp getStepFunction(mlir::ModuleOp module);
// The number of ranks of a group.
int64_t getGroupSize(MeshAttr mesh, llvm::ArrayRef<mlir::StringAttr> axes);

//===-- Reading and writing -----------------------------------------------===//

// How `value` lies where it is defined: result, argument of a function or of a
// repeat's body. Its type is a ranked tensor.
ShardingAttr getSharding(mlir::Value value);
void setSharding(mlir::Value value, ShardingAttr sharding);
// How the user of `use` needs it.
ShardingAttr getRequired(mlir::OpOperand &use);
void setRequired(mlir::OpOperand &use, ShardingAttr sharding);
// The same for result `i` of a function: what its return requires.
ShardingAttr getResultSharding(mlir::func::FuncOp func, unsigned i);
// Removes parallel.in, out and args from an op.
void clearShardings(mlir::Operation *op);

//===-- Making shardings --------------------------------------------------===//

// Unreduced axes come sorted by name, so that equal shardings are equal attributes.
ShardingAttr makeSharding(mlir::MLIRContext *context, llvm::ArrayRef<Axes> dims,
                          llvm::ArrayRef<mlir::StringAttr> unreduced = {},
                          graph::ReduceKind kind = graph::ReduceKind::sum);
llvm::SmallVector<Axes> getAxes(ShardingAttr sharding);
// The same dims, unreduced over exactly `axes`.
ShardingAttr withUnreduced(ShardingAttr sharding, llvm::ArrayRef<mlir::StringAttr> axes,
                           graph::ReduceKind kind = graph::ReduceKind::sum);
// Without a leading dimension (stacked operand -> body argument), and with one (uncut).
ShardingAttr dropLeading(ShardingAttr sharding);
ShardingAttr addLeading(ShardingAttr sharding);
// Without axes of size 1.
ShardingAttr withoutUnitAxes(ShardingAttr sharding, MeshAttr mesh);

// The part of a tensor that one rank holds. Sizes must divide (see dividesEvenly).
mlir::RankedTensorType getLocalType(mlir::Type global, ShardingAttr sharding, MeshAttr mesh);
bool dividesEvenly(mlir::Type global, ShardingAttr sharding, MeshAttr mesh);

//===-- Rules -------------------------------------------------------------===//

// Per factor of a rule, the axes that cut it, major first.
using FactorAxes = llvm::SmallVector<Axes, 6>;

// Distributes the axes of one dimension over its factors: a later factor takes
// axes only when the ones before it are cut completely. Fails if they do not fit.
mlir::FailureOr<llvm::SmallVector<Axes>> splitAxes(const graph::ShardingRule &rule,
                                                   const graph::DimFactors &dim,
                                                   llvm::ArrayRef<mlir::StringAttr> axes,
                                                   MeshAttr mesh);
// The sharding of a tensor whose dimensions are made of `dims`.
ShardingAttr shardingOf(mlir::MLIRContext *context, const graph::TensorFactors &dims,
                        const FactorAxes &axes);
// What a result whose dimensions are made of `result` is unreduced over, if factors
// are cut like this: the axes of reduced factors that it does not carry.
Axes unreducedOf(const graph::ShardingRule &rule, const graph::TensorFactors &result,
                 const FactorAxes &axes);
graph::ReduceKind unreducedKindOf(const graph::ShardingRule &rule, const FactorAxes &axes);

// Reads the factor axes back from the op's annotations. Fails with a
// diagnostic if operands and results disagree with each other or with the rule:
// A1 one sharding per operand and result, one entry per dimension, axes of the
// mesh; A2 one assignment per factor; A3 replicated factors and broadcast
// dimensions are not cut; A4 results are unreduced over the axes of reduced
// factors that they lack, and of linear operands; A5 unreduced operands are one of the op's linear sets.
mlir::FailureOr<FactorAxes> readFactorAxes(mlir::Operation *op);

// Checks all annotations of a module: readFactorAxes on every op, and A6
// operands, body arguments, yields and results of a repeat agree, the layer
// dimension is not cut; A7 states, function arguments and results agree.
mlir::LogicalResult verifyAnnotations(mlir::ModuleOp module);

//===-- Origins -----------------------------------------------------------===//

// The tactic that cut over an axis, or "annotation" if none says that it did: then
// whoever wrote the IR has cut.
llvm::StringRef getTactic(mlir::ModuleOp module, mlir::StringAttr axis);
void setTactic(mlir::ModuleOp module, mlir::StringAttr axis, llvm::StringRef tactic);

// A name for people: the first name in a location, or empty.
llvm::StringRef getNodeName(mlir::Location loc);
// All names in a location, in order, each once.
llvm::SmallVector<mlir::StringAttr> getNodeNames(mlir::Location loc);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_ANNOTATIONS_H

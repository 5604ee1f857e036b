// Reads and writes the shardings that a module has in phase 3: discardable attributes on ops, whose
// spelling only this header knows (test/dialects/parallel/invalid.mlir).
//
//   parallel.in  = [sharding per operand]      what an op needs
//   parallel.out = [sharding per result]       what it defines
//   parallel.args = [sharding per body arg]    of a repeat
//   parallel.sharding                          of a function argument or a state; once types are local, of the
//                                              routes that an op chooses or limits
//
// A value without an annotation is replicated.
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
using graph::kScalar;
using graph::kLoader;
using graph::kOutput;
using graph::kState;

inline constexpr llvm::StringLiteral kMesh = "parallel.mesh";
inline constexpr llvm::StringLiteral kIn = "parallel.in";
inline constexpr llvm::StringLiteral kOut = "parallel.out";
inline constexpr llvm::StringLiteral kArgs = "parallel.args";
inline constexpr llvm::StringLiteral kSharding = "parallel.sharding";
inline constexpr llvm::StringLiteral kOrigin = "parallel.origin";
// Records, on a module, the tactic of each axis that is cut over.
inline constexpr llvm::StringLiteral kTactics = "parallel.tactics";
// Describes, on a module, what each op of the model computes on and why, for people (DescribeOps).
inline constexpr llvm::StringLiteral kOps = "parallel.ops";
inline constexpr llvm::StringLiteral kStage = "parallel.stage";
inline constexpr llvm::StringLiteral kStages = "parallel.stages";
inline constexpr llvm::StringLiteral kLayers = "parallel.layers";
// Counts, on a module, the model's layers of each virtual stage (its repeats may hold several each).
// Virtual stage k runs on stage k mod p of p, as its chunk k / p. Up to the split into stages
// parallel.stage and parallel.layers on ops name virtual stages, after it parallel.stage on
// functions names a stage and parallel.chunk the chunk.
inline constexpr llvm::StringLiteral kStageLayers = "parallel.stage_layers";
inline constexpr llvm::StringLiteral kStageBoundary = "parallel.boundary";
inline constexpr llvm::StringLiteral kResidual = "parallel.residual";
// Gives, on an attention whose positions differ between the ranks of a context, the share of all pairs of a row and a key
// that one of these ranks sees on average: an f64 (CountAttention).
inline constexpr llvm::StringLiteral kVisible = "parallel.visible";
// Binds an argument or result to several states that lie side by side: a #parallel.flat.
inline constexpr llvm::StringLiteral kFlat = "parallel.flat";
// Lists, on a state, the axes that cut the flat tensor in which the state lies (ShardState).
inline constexpr llvm::StringLiteral kFlatAxes = "parallel.flat_axes";
// Marks an op that looks something up and whose indexed dimension must not be cut.
inline constexpr llvm::StringLiteral kKeepIndexedDim = "parallel.whole";
// Identifies, on a stage's function, which of the stage's chunks of layers it runs; 0 if missing.
inline constexpr llvm::StringLiteral kChunk = "parallel.chunk";
inline constexpr llvm::StringLiteral kProcedure = "parallel.procedure";
// Holds the shape of a result without padding, if it has any.
inline constexpr llvm::StringLiteral kValidShape = "parallel.valid_shape";

using Axes = llvm::SmallVector<mlir::StringAttr, 2>;

// Returns the mesh of `op` or of the nearest op around it that has one; null if none has.
MeshAttr getMesh(mlir::Operation *op);

// Returns whether ranks along one of the axes hold the same parameters and see other tokens: the data
// and context axes of the mesh of `op`.
bool areOverReplicas(mlir::Operation *op, mlir::ArrayAttr axes);
// Returns whether the module runs a model once, instead of a step that trains it.
bool isInference(mlir::ModuleOp module);
// Returns what runs for a micro-batch before the split into stages: @micro of a training step,
// @forward of an inference. Null if it is missing.
mlir::func::FuncOp getStepFunction(mlir::ModuleOp module);
// Returns the number of virtual stages: those that parallel.stage_layers lists, else the stages of
// the mesh.
int64_t getNumVirtualStages(mlir::ModuleOp module);
// Returns the virtual stage of a stage's function (parallel.stage, parallel.chunk).
int64_t getVirtualStage(mlir::func::FuncOp func);
// Returns the number of ranks of a group over `axes`; 1 without a mesh.
int64_t getGroupSize(MeshAttr mesh, llvm::ArrayRef<mlir::StringAttr> axes);

//===-- Reading and writing -----------------------------------------------===//

// Returns the sharding with which `value` is defined: a result, or an argument of a function or of
// a repeat's body. Its type is a ranked tensor.
ShardingAttr getSharding(mlir::Value value);
void setSharding(mlir::Value value, ShardingAttr sharding);
// Returns the sharding that the user of `use` requires.
ShardingAttr getRequired(mlir::OpOperand &use);
void setRequired(mlir::OpOperand &use, ShardingAttr sharding);
// Writes the shardings that an op requires of all its operands and defines of all its results at once, which costs as much
// as one of them alone; and its origin, if any.
void setShardings(mlir::Operation *op, llvm::ArrayRef<ShardingAttr> required, llvm::ArrayRef<ShardingAttr> defined,
                  mlir::DictionaryAttr origin = {});
// Writes those of all arguments of a function or of a repeat's body at once.
void setArgumentShardings(mlir::Operation *parent, llvm::ArrayRef<ShardingAttr> shardings);
// Returns the sharding that the return of `func` requires of result `i`.
ShardingAttr getResultSharding(mlir::func::FuncOp func, unsigned i);

//===-- Making shardings --------------------------------------------------===//

// Makes a sharding; sorts unreduced axes by name, so that equal shardings are equal attributes.
ShardingAttr makeSharding(mlir::MLIRContext *context, llvm::ArrayRef<Axes> dims,
                          llvm::ArrayRef<mlir::StringAttr> unreduced = {},
                          graph::ReduceKind kind = graph::ReduceKind::sum);
llvm::SmallVector<Axes> getAxes(ShardingAttr sharding);
// Returns the same dims, unreduced over exactly `axes`.
ShardingAttr withUnreduced(ShardingAttr sharding, llvm::ArrayRef<mlir::StringAttr> axes,
                           graph::ReduceKind kind = graph::ReduceKind::sum);
// Drops the leading dimension (stacked operand -> body argument), or adds one that is not cut.
ShardingAttr dropLeading(ShardingAttr sharding);
ShardingAttr addLeading(ShardingAttr sharding);
// Returns `sharding` without axes of size 1.
ShardingAttr withoutUnitAxes(ShardingAttr sharding, MeshAttr mesh);

// Returns the type of one rank's shard of a tensor. Sizes must divide (see dividesEvenly).
mlir::RankedTensorType getLocalType(mlir::Type global, ShardingAttr sharding, MeshAttr mesh);
bool dividesEvenly(mlir::Type global, ShardingAttr sharding, MeshAttr mesh);

//===-- Rules -------------------------------------------------------------===//

// Lists per factor of a rule the axes that cut it, major first.
using FactorAxes = llvm::SmallVector<Axes, 6>;

// Distributes the axes of one dimension over its factors: a later factor takes
// axes only when the ones before it are cut completely. Fails if they do not fit.
mlir::FailureOr<llvm::SmallVector<Axes>> splitAxes(const graph::ShardingRule &rule,
                                                   const graph::DimFactors &dim,
                                                   llvm::ArrayRef<mlir::StringAttr> axes,
                                                   MeshAttr mesh);
// Returns the sharding of a tensor whose dimensions consist of the factors `dims`.
ShardingAttr shardingOf(mlir::MLIRContext *context, const graph::TensorFactors &dims,
                        const FactorAxes &axes);
// Returns the axes over which a result with the factors `result` is unreduced if factors are cut by
// `axes`: those of reduced factors that it does not carry.
Axes unreducedOf(const graph::ShardingRule &rule, const graph::TensorFactors &result,
                 const FactorAxes &axes);
graph::ReduceKind unreducedKindOf(const graph::ShardingRule &rule, const FactorAxes &axes);

// Reads the factor axes back from the op's annotations. Fails with a diagnostic if operands and
// results disagree with each other or with the rule: A1 one sharding per operand and result, one
// entry per dimension, axes of the mesh; A2 one assignment per factor; A3 replicated factors and
// broadcast dimensions are not cut; A4 results are unreduced over the axes of reduced factors that
// they lack, and of linear operands; A5 unreduced operands are one of the op's linear sets.
mlir::FailureOr<FactorAxes> readFactorAxes(mlir::Operation *op);
// Reads those of an op whose rule is known.
mlir::FailureOr<FactorAxes> readFactorAxes(mlir::Operation *op, const graph::ShardingRule &rule);

// Checks all annotations of a module: readFactorAxes on every op; A6 operands, body arguments,
// yields and results of a repeat agree, and the layer dimension is not cut; A7 a function argument
// that is bound to a state has the state's sharding, but for unreduced axes.
mlir::LogicalResult verifyAnnotations(mlir::ModuleOp module);

//===-- Origins -----------------------------------------------------------===//

// Returns the tactic that cut over an axis, or "annotation" if none is recorded: then the author of
// the IR has cut.
llvm::StringRef getTactic(mlir::ModuleOp module, mlir::StringAttr axis);
void setTactic(mlir::ModuleOp module, mlir::StringAttr axis, llvm::StringRef tactic);

// Returns a name for people: the first name in a location, or empty.
llvm::StringRef getNodeName(mlir::Location loc);
// Returns all names in a location, in order, each once.
llvm::SmallVector<mlir::StringAttr> getNodeNames(mlir::Location loc);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_ANNOTATIONS_H

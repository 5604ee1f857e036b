#ifndef LLMC_GRAPH_INTERFACES
#define LLMC_GRAPH_INTERFACES

include "mlir/IR/OpBase.td"

def GraphOpInterface : OpInterface<"GraphOpInterface"> {
  let cppNamespace = "::llmc::graph";
  let description = [{
    States what the compiler needs to know of an op that computes: how it may be cut, what it costs,
    what it means, its gradient and its kernel. All other code calls these methods and never
    switches on the kind of op.
  }];
  let methods = [
    InterfaceMethod<[{
        Returns the factors that the dimensions of operands and results share
        (dialects/graph/ShardingRule.h).
      }], "::llmc::graph::ShardingRule", "getShardingRule", (ins)>,
    InterfaceMethod<[{
        Returns the FLOPs of one execution (multiply and add count as two); bytes are those of
        operands and results.
      }], "double", "getFlops", (ins), "",
      /*defaultImplementation=*/[{ return ::llmc::graph::elementwiseFlops($_op); }]>,
    InterfaceMethod<[{
        Evaluates the op by plain loops in double: its reference meaning. `inputs` are in operand
        order; `outputs` come with shapes set and zero data.
      }], "void", "evaluate",
      (ins "::llvm::ArrayRef<const ::llmc::graph::Tensor *>":$inputs,
           "::llvm::MutableArrayRef<::llmc::graph::Tensor>":$outputs)>,
    InterfaceMethod<[{ Evaluates with derivatives along one direction (dialects/graph/Dual.h). }],
      "void", "evaluateDual",
      (ins "::llvm::ArrayRef<const ::llmc::graph::DualTensor *>":$inputs,
           "::llvm::MutableArrayRef<::llmc::graph::DualTensor>":$outputs)>,
    InterfaceMethod<[{ Evaluates with bounds on rounding errors (dialects/graph/Bounded.h). }],
      "void", "evaluateBounded",
      (ins "::llvm::ArrayRef<const ::llmc::graph::BoundedTensor *>":$inputs,
           "::llvm::MutableArrayRef<::llmc::graph::BoundedTensor>":$outputs)>,
    InterfaceMethod<[{
        Builds the cotangents of the operands. `cotangents` has one value per
        result, null where nothing flows back. On success `operandCotangents`
        has one value per operand, null where the gradient is zero by
        construction or the operand is not differentiable. Fails, without
        building anything, if the op has no gradient.
      }], "::mlir::LogicalResult", "differentiate",
      (ins "::mlir::OpBuilder &":$builder,
           "::llvm::ArrayRef<::mlir::Value>":$cotangents,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandCotangents)>,
    InterfaceMethod<[{ Returns the family of kernels that computes the op. }],
      "::llmc::graph::EmitClass", "getEmitClass", (ins), "",
      [{ return ::llmc::graph::EmitClass::Elementwise; }]>,
    InterfaceMethod<[{
        Returns the element types that the op reads and writes where the model computes in a low one
        (dialects/graph/PrecisionRule.h). Asked of forward ops only: gradients follow their types.
      }], "::llmc::graph::PrecisionRule", "getPrecisionRule", (ins), "", [{ return {}; }]>,
  ];
}

#endif

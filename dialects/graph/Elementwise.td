#ifndef LLMC_GRAPH_ELEMENTWISE
#define LLMC_GRAPH_ELEMENTWISE
include "dialects/graph/GraphBase.td"

// Operands broadcast as in NumPy (aligned at the last dimension; size 1 repeats). C1: the result
// has the broadcast shape; C2: element types agree; C3: operands of and, or, not and the condition
// of select are i1.
class Graph_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : Graph_ComputeOp<mnemonic, [], !listconcat(traits, [InferTypeOpInterface, Graph_Broadcasting])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static ::mlir::LogicalResult inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
        ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
        ::llvm::SmallVectorImpl<::mlir::Type> &types);
  }];
}
class Graph_BinaryOp<string mnemonic, string text> : Graph_ElementwiseOp<mnemonic> {
  let summary = text;
  let description = "Broadcasts both operands as NumPy does. Example: `%r = graph." # mnemonic #
                    " %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>`";
  let arguments = (ins Graph_Tensor:$lhs, Graph_Tensor:$rhs);
  let results = (outs Graph_Tensor:$result);
}
class Graph_UnaryOp<string mnemonic, string text> : Graph_ElementwiseOp<mnemonic> {
  let summary = text;
  let description = "Example: `%r = graph." # mnemonic #
                    " %x : (tensor<2x4xf32>) -> tensor<2x4xf32>`";
  let arguments = (ins Graph_Float:$operand);
  let results = (outs Graph_Float:$result);
}
// Defines a unary op whose operand may be of integers.
class Graph_NumberOp<string mnemonic, string text> : Graph_ElementwiseOp<mnemonic> {
  let summary = text;
  let description = "Example: `%r = graph." # mnemonic #
                    " %x : (tensor<2x4xf32>) -> tensor<2x4xf32>`";
  let arguments = (ins Graph_Tensor:$operand);
  let results = (outs Graph_Tensor:$result);
}

def Graph_AddOp : Graph_BinaryOp<"add", "lhs + rhs">;
def Graph_SubOp : Graph_BinaryOp<"sub", "lhs - rhs">;
def Graph_MulOp : Graph_BinaryOp<"mul", "lhs * rhs">;
def Graph_DivOp : Graph_BinaryOp<"div", "lhs / rhs; of integers toward zero, and 0 where rhs is 0">;
def Graph_RemOp : Graph_BinaryOp<"rem", "lhs - rhs * trunc(lhs / rhs), which has lhs's sign; an integer's is 0 where rhs is 0">;
def Graph_PowerOp : Graph_ElementwiseOp<"power"> {
  let summary = "lhs ^ rhs, both tensors";
  let description = [{
    Takes the exponent as a tensor, which broadcasts and has a gradient (zero where lhs <= 0).
    Differs in its bits from graph.pow, whose kernels multiply where the exponent is whole; a
    scalar constant on the right becomes a graph.pow (FoldConstants).
    Example: `%r = graph.power %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>`
  }];
  let arguments = (ins Graph_Float:$lhs, Graph_Float:$rhs);
  let results = (outs Graph_Float:$result);
}
def Graph_MaximumOp : Graph_BinaryOp<"maximum", "the larger; the gradient goes to lhs where equal">;
def Graph_MinimumOp : Graph_BinaryOp<"minimum", "the smaller; the gradient goes to lhs where equal">;
class Graph_LogicalOp<string mnemonic, string text> : Graph_BinaryOp<mnemonic, text> {
  let description = "Broadcasts both operands as NumPy does. Example: `%r = graph." # mnemonic #
                    " %c, %d : (tensor<2x4xi1>, tensor<2x1xi1>) -> tensor<2x4xi1>`";
}
def Graph_AndOp : Graph_LogicalOp<"and", "logical and of i1">;
def Graph_OrOp : Graph_LogicalOp<"or", "logical or of i1">;

def Graph_NegOp : Graph_NumberOp<"neg", "-x">;
def Graph_AbsOp : Graph_NumberOp<"abs", "the magnitude">;
def Graph_SignOp : Graph_NumberOp<"sign", "-1, 0 or 1">;
def Graph_FloorOp : Graph_UnaryOp<"floor", "the largest integer that is not larger">;
def Graph_CeilOp : Graph_UnaryOp<"ceil", "the smallest integer that is not smaller">;
def Graph_RoundOp : Graph_UnaryOp<"round", "the nearest integer, halves to the even one">;
def Graph_SinOp : Graph_UnaryOp<"sin", "sine of radians">;
def Graph_CosOp : Graph_UnaryOp<"cos", "cosine of radians">;
def Graph_ExpOp : Graph_UnaryOp<"exp", "e^x">;
def Graph_LogOp : Graph_UnaryOp<"log", "natural logarithm">;
def Graph_SqrtOp : Graph_UnaryOp<"sqrt", "square root">;
def Graph_RsqrtOp : Graph_UnaryOp<"rsqrt", "1 / sqrt(x)">;
def Graph_TanhOp : Graph_UnaryOp<"tanh", "hyperbolic tangent">;
def Graph_ErfOp : Graph_UnaryOp<"erf", "error function">;
def Graph_SigmoidOp : Graph_UnaryOp<"sigmoid", "1 / (1 + e^-x)">;
def Graph_SoftplusOp : Graph_UnaryOp<"softplus", "log(1 + e^x)">;
def Graph_ReluOp : Graph_UnaryOp<"relu", "max(x, 0)">;
def Graph_PowOp : Graph_ElementwiseOp<"pow"> {
  let summary = "x ^ exponent, a constant exponent";
  let description = [{
    Kernels multiply where `exponent` is whole and at most 64 in magnitude, take a square root where
    it is 0.5 or -0.5, and compute a graph.power, which takes a tensor of exponents, otherwise.
    Example: `%r = graph.pow %x {exponent = 2.0} : (tensor<2x4xf32>) -> tensor<2x4xf32>`
  }];
  let arguments = (ins Graph_Float:$operand, F64Attr:$exponent);
  let results = (outs Graph_Float:$result);
}
def Graph_GeluOp : Graph_ElementwiseOp<"gelu"> {
  let summary = "x * Phi(x), or its tanh approximation (Hendrycks and Gimpel, 2016)";
  let description = [{
    Phi(x) = (1 + erf(x / sqrt(2))) / 2 is the normal distribution's; with `form` tanh it is
    (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
    Example:
    ```mlir
    %r = graph.gelu %x {form = #graph.gelu_form<tanh>}
        : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Graph_Float:$operand, Graph_GeluFormAttr:$form);
  let results = (outs Graph_Float:$result);
}
def Graph_GeluGradOp : Graph_ElementwiseOp<"gelu_grad"> {
  let summary = "cotangent * gelu'(x)";
  let description = [{
    The operand is x, then the cotangent of graph.gelu; `form` is that of the graph.gelu.
    Example:
    ```mlir
    %r = graph.gelu_grad %x, %g {form = #graph.gelu_form<erf>}
        : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Graph_Float:$operand, Graph_Float:$cotangent, Graph_GeluFormAttr:$form);
  let results = (outs Graph_Float:$result);
}
def Graph_NotOp : Graph_ElementwiseOp<"not"> {
  let summary = "logical not of i1";
  let description = [{ Example: `%r = graph.not %c : (tensor<2x4xi1>) -> tensor<2x4xi1>` }];
  let arguments = (ins Graph_Tensor:$operand);
  let results = (outs Graph_Tensor:$result);
}
def Graph_CompareOp : Graph_ElementwiseOp<"compare"> {
  let summary = "lhs predicate rhs, as i1";
  let description = [{
    Compares floats as IEEE 754 does: with a NaN only `ne` holds. Integers are signed.
    Example:
    ```mlir
    %c = graph.compare %x, %y {predicate = #graph.predicate<lt>}
        : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
    ```
  }];
  let arguments = (ins Graph_Tensor:$lhs, Graph_Tensor:$rhs, Graph_PredicateAttr:$predicate);
  let results = (outs Graph_Tensor:$result);
}
def Graph_SelectOp : Graph_ElementwiseOp<"select"> {
  let summary = "condition ? lhs : rhs";
  let description = [{
    Selects lhs where the i1 is true, else rhs. All three broadcast.
    Example:
    ```mlir
    %r = graph.select %c, %x, %y
        : (tensor<2x1xi1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$condition, Graph_Tensor:$lhs, Graph_Tensor:$rhs);
  let results = (outs Graph_Tensor:$result);
}
def Graph_CastOp : Graph_ComputeOp<"cast", ["getPrecisionRule"]> {
  let summary = "the same values in another element type";
  let description = [{
    Converts integers to floats and back (toward zero); i1 becomes 0 or 1, and the i1 of
    a number is true where it is not 0.
    Example: `%r = graph.cast %x : (tensor<2x4xf32>) -> tensor<2x4xbf16>`
    Rules: C1 one shape.
  }];
  let arguments = (ins Graph_Tensor:$operand);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif

#include "Classes.h"

using namespace llmc::test;

static const std::set<std::string> kMust = {
    // arithmetic
    "Add", "Sub", "Mul", "Div", "Neg", "Pow", "Sqrt", "Reciprocal", "Exp", "Log", "Abs", "Min",
    "Max", "Sum",
    // nonlinear
    "Erf", "Tanh", "Sigmoid", "Relu", "Softmax", "LayerNormalization", "Gelu", "Sin", "Cos", "Clip",
    // linear, reductions
    "MatMul", "Gemm", "ReduceMean", "ReduceSum", "ReduceMax",
    // movement
    "Gather", "Reshape", "Transpose", "Concat", "Slice", "Split", "Squeeze", "Unsqueeze", "Expand",
    "Tile", "Identity", "Flatten", "Where", "Pad", "Trilu",
    // shapes and constants
    "Constant", "ConstantOfShape", "Shape", "Size", "Range", "Cast", "CastLike",
    // logic, indices
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Not", "GatherND",
    "ScatterND", "CumSum",
    // opset 23 and later
    "Attention", "RMSNormalization", "RotaryEmbedding"};

static const std::set<std::string> kShould = {
    "TopK", "OneHot", "NonZero", "GatherElements", "ScatterElements", "Einsum", "Dropout",
    "ReduceMin", "ReduceProd", "ReduceL2", "ReduceSumSquare", "LogSoftmax",
    "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "Floor", "Ceil", "Round", "Mod",
    "IsNaN", "IsInf", "Xor", "ArgMax", "Sign", "Softplus", "Swish", "SwiGLU", "TensorScatter",
    "Conv", "DequantizeLinear", "QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger",
    "BitwiseAnd", "BitwiseOr", "If"};

Class llmc::test::classOf(const std::set<std::string> &ops) {
  Class out = ops.empty() ? Class::Other : Class::Must;
  for (const std::string &op : ops) {
    if (kMust.count(op))
      continue;
    if (!kShould.count(op))
      return Class::Other;
    out = Class::Should;
  }
  return out;
}

// The ONNX reader behind the wire format: the bytes choose operators, operands and
// attributes of a small model around an embedding lookup, and put nodes into functions
// and branches.
#include "Model.h"
#include "lib/onnx/Import.h"
#include "onnx-ml.pb.h"

using namespace llmc;

namespace {

constexpr const char *kOps[] = {
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "Attention", "AveragePool", "BatchNormalization", "BitShift", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu", "CenterCropPad", "Clip",
    "Compress", "Concat", "Constant", "ConstantOfShape", "Conv", "Cos", "Cosh", "CumProd",
    "CumSum", "DepthToSpace", "DequantizeLinear", "Div", "Dropout", "DynamicQuantizeLinear",
    "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather",
    "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater",
    "GreaterOrEqual", "GroupNormalization", "HardSigmoid", "HardSwish", "Hardmax", "Identity",
    "InstanceNormalization", "IsInf", "IsNaN", "LayerNormalization", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "LogSoftmax", "LpNormalization", "LpPool", "MatMul", "MatMulInteger",
    "Max", "MaxPool", "Mean", "MeanVarianceNormalization", "Min", "Mish", "Mod", "Mul", "Neg",
    "NegativeLogLikelihoodLoss", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow",
    "QLinearMatMul", "QuantizeLinear", "RMSNormalization", "Range", "Reciprocal", "ReduceL1",
    "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "ReverseSequence",
    "RotaryEmbedding", "Round", "Scatter", "ScatterElements", "ScatterND", "Selu", "Shape",
    "Shrink", "Sigmoid", "Sign", "SimplifiedLayerNormalization", "Sin", "Sinh", "Size", "Slice",
    "Softmax", "SoftmaxCrossEntropyLoss", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt",
    "Squeeze", "Sub", "Sum", "SwiGLU", "Swish", "Tan", "Tanh", "TensorScatter", "ThresholdedRelu",
    "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor", "com.microsoft::Attention",
    "com.microsoft::BiasGelu", "com.microsoft::EmbedLayerNormalization",
    "com.microsoft::FastGelu", "com.microsoft::FusedMatMul",
    "com.microsoft::GatherBlockQuantized", "com.microsoft::Gelu",
    "com.microsoft::GroupQueryAttention", "com.microsoft::MatMulNBits", "com.microsoft::MoE",
    "com.microsoft::MultiHeadAttention", "com.microsoft::PagedAttention", "com.microsoft::QMoE",
    "com.microsoft::QuickGelu", "com.microsoft::RotaryEmbedding",
    "com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization",
    "com.microsoft::SparseAttention", "com.microsoft::TransposeMatMul"};
constexpr const char *kAttributes[] = {
    "K", "N", "allowzero", "alpha", "approximate", "auto_pad", "axes", "axis", "batch_axis",
    "batch_dims", "beta", "bias", "bits", "block_size", "blocksize", "causal", "ceil_mode",
    "count_include_pad", "detect_negative", "detect_positive", "dilations", "direction",
    "do_rotary", "end", "epsilon", "equation", "exclusive", "fmod", "gamma", "group",
    "ignore_index", "interleaved", "is_causal", "k", "keepdims", "kernel_shape", "kv_num_heads",
    "lambd", "largest", "left_window_size", "local_window_size", "mask_filter_value", "max",
    "min", "mode", "noop_with_empty_axes", "num_groups", "num_heads", "num_outputs",
    "output_dtype", "p", "pads", "perm", "q_num_heads", "qk_matmul_output_mode",
    "qkv_hidden_sizes", "reduction", "reverse", "right_window_size", "rotary_embedding_dim",
    "rotary_interleaved", "round_mode", "saturate", "scale", "select_last_index",
    "smooth_softmax", "softcap", "split", "start", "strides", "time_axis", "to", "training_mode",
    "transA", "transB", "unidirectional", "upper", "value", "value_float", "value_floats",
    "value_int", "value_ints"};
constexpr const char *kTexts[] = {
    "none", "tanh", "constant", "reflect", "edge", "wrap", "add", "mul", "max", "min", "linear",
    "circular", "mean", "sum", "LEFT", "RIGHT", "DCR", "CRD", "nearest", "up", "ij,jk->ik",
    "...i,ij->...j", "bsd,de", "bii->bi", "->", "SAME_UPPER", "VALID"};

constexpr int kMostNodes = 12;

class Builder {
public:
  explicit Builder(std::string_view bytes) : in_(bytes) {}

  std::string model() {
    graph_ = model_.mutable_graph();
    model_.add_opset_import()->set_version(7 + next() % 22);
    startModel();
    for (int i = 0; i < kMostNodes && !in_.empty(); ++i)
      addNode(i);
    auto *output = graph_->add_output();
    output->set_name(names_.back());
    return model_.SerializeAsString();
  }

private:
  uint8_t next() { return test::take<uint8_t>(in_); }
  // Mostly small, sometimes any 64 bits.
  int64_t integer() {
    int8_t small = test::take<int8_t>(in_);
    return small == 127 ? test::take<int64_t>(in_) : small;
  }
  template <class T, size_t N>
  T pick(const T (&list)[N]) { return list[next() % N]; }

  void startModel() {
    auto *ids = graph_->add_input();
    ids->set_name("ids");
    auto *type = ids->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::INT64);
    type->mutable_shape()->add_dim()->set_dim_param("batch");
    type->mutable_shape()->add_dim()->set_dim_value(4);
    addWeight("words", {8, 4});
    addWeight("matrix", {4, 4});
    addWeight("row", {4});
    auto *node = graph_->add_node();
    node->set_op_type("Gather");
    node->add_input("words");
    node->add_input("ids");
    node->add_output("x");
    names_ = {"x", "matrix", "row", "ids"};
    auto *yes = graph_->add_initializer();
    yes->set_name("yes");
    yes->set_data_type(onnx::TensorProto::BOOL);
    yes->set_raw_data("\1");
    for (int i = next() % 4; i > 0; --i) {
      std::string name = "constant" + std::to_string(i);
      fill(*graph_->add_initializer(), name);
      names_.push_back(name);
    }
  }

  void addWeight(const char *name, std::initializer_list<int64_t> shape) {
    auto *tensor = graph_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    int64_t count = 1;
    for (int64_t dim : shape)
      tensor->add_dims(dim), count *= dim;
    tensor->set_raw_data(std::string(size_t(count) * 4, '\0'));
  }

  // A list, a scalar or a small matrix of the bytes' choice.
  void fill(onnx::TensorProto &tensor, const std::string &name) {
    tensor.set_name(name);
    unsigned kind = next();
    int64_t count = 1;
    for (unsigned d = kind % 4 == 3 ? 2 : kind % 3; d > 0; --d) {
      int64_t dim = next() % 5;
      tensor.add_dims(dim);
      count *= dim;
    }
    constexpr int32_t types[] = {onnx::TensorProto::INT64, onnx::TensorProto::FLOAT,
                                 onnx::TensorProto::BOOL, onnx::TensorProto::INT64,
                                 onnx::TensorProto::INT32, onnx::TensorProto::DOUBLE};
    int32_t type = types[kind / 8 % 6];
    tensor.set_data_type(type);
    for (int64_t i = 0; i < count; ++i)
      if (type == onnx::TensorProto::FLOAT)
        tensor.add_float_data(test::take<float>(in_));
      else if (type == onnx::TensorProto::DOUBLE)
        tensor.add_double_data(test::take<double>(in_));
      else if (type == onnx::TensorProto::INT64)
        tensor.add_int64_data(integer());
      else
        tensor.add_int32_data(int32_t(integer()));
  }

  void addNode(int index) {
    onnx::NodeProto node;
    std::string op = pick(kOps);
    if (size_t at = op.find("::"); at != std::string::npos) {
      node.set_domain(op.substr(0, at));
      op = op.substr(at + 2);
    }
    node.set_op_type(op);
    unsigned shape = next();
    for (unsigned i = shape % 8; i > 0; --i) {
      // Half of all operands are the latest value.
      uint8_t which = next();
      node.add_input(which == 255 ? "" : which & 1 ? names_.back() : names_[which / 2 % names_.size()]);
    }
    for (unsigned i = shape / 8 % 4; i > 0; --i)
      addAttribute(*node.add_attribute());
    for (unsigned i = 0; i <= shape / 32 % 3; ++i)
      node.add_output("v" + std::to_string(index) + "_" + std::to_string(i));
    for (const std::string &name : node.output())
      names_.push_back(name);
    unsigned place = next();
    if (place % 8 == 1)
      addCall(node, index);
    else if (place % 8 == 2)
      addBranch(node, place & 128);
    else
      *graph_->add_node() = node;
  }

  // The node as the body of a function of its own, under other names.
  void addCall(const onnx::NodeProto &node, int index) {
    auto *function = model_.add_functions();
    function->set_domain("local");
    function->set_name("f" + std::to_string(index));
    function->add_opset_import()->set_version(model_.opset_import(0).version());
    auto *call = graph_->add_node();
    auto *inner = function->add_node();
    *call = node;
    *inner = node;
    call->set_domain("local");
    call->set_op_type(function->name());
    for (int i = 0; i < node.input_size(); ++i) {
      inner->set_input(i, "x" + std::to_string(i));
      function->add_input(inner->input(i));
    }
    for (int i = 0; i < node.output_size(); ++i) {
      inner->set_output(i, "y" + std::to_string(i));
      function->add_output(inner->output(i));
    }
    for (int i = 0; i < inner->attribute_size(); ++i)
      if (i % 2 == 0) {
        inner->mutable_attribute(i)->set_ref_attr_name(inner->attribute(i).name());
        if (i % 4 == 0)
          *function->add_attribute_proto() = node.attribute(i);
      }
  }

  // The node in a branch; in the other one its first result is x.
  void addBranch(const onnx::NodeProto &node, bool known) {
    auto *branching = graph_->add_node();
    branching->set_op_type("If");
    branching->add_input(known ? "yes" : names_.front());
    for (const char *name : {"then_branch", "else_branch"}) {
      auto *attribute = branching->add_attribute();
      attribute->set_name(name);
      attribute->set_type(onnx::AttributeProto::GRAPH);
      auto *graph = attribute->mutable_g();
      bool taken = name[0] == 't';
      if (taken)
        *graph->add_node() = node;
      for (const std::string &output : node.output())
        graph->add_output()->set_name(taken ? output : "x");
    }
    for (const std::string &output : node.output())
      branching->add_output(output);
  }

  void addAttribute(onnx::AttributeProto &attribute) {
    attribute.set_name(pick(kAttributes));
    switch (next() % 6) {
    case 0:
    case 1:
      attribute.set_type(onnx::AttributeProto::INT);
      return attribute.set_i(integer());
    case 2:
      attribute.set_type(onnx::AttributeProto::INTS);
      for (unsigned i = next() % 5; i > 0; --i)
        attribute.add_ints(integer());
      return;
    case 3:
      attribute.set_type(onnx::AttributeProto::FLOAT);
      return attribute.set_f(test::take<float>(in_));
    case 4:
      attribute.set_type(onnx::AttributeProto::STRING);
      return attribute.set_s(pick(kTexts));
    default:
      attribute.set_type(onnx::AttributeProto::TENSOR);
      return fill(*attribute.mutable_t(), "");
    }
  }

  std::string_view in_;
  onnx::ModelProto model_;
  onnx::GraphProto *graph_ = nullptr;
  std::vector<std::string> names_;
};

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  test::importModel(Builder(test::view(data, size)).model(), importOnnx, 0, {{"batch", 1}});
  return 0;
}

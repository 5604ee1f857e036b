// The ONNX reader behind the wire format: the bytes choose operators, operands and
// attributes of a small model around an embedding lookup.
#include "Model.h"
#include "lib/onnx/Import.h"
#include "onnx-ml.pb.h"

using namespace llmc;

namespace {

constexpr const char *kOps[] = {
    "Abs", "Add", "And", "Attention", "BitwiseAnd", "BitwiseOr", "Cast", "CastLike", "Ceil",
    "Clip", "Concat", "Constant", "ConstantOfShape", "Cos", "CumSum", "Div", "Dropout", "Equal",
    "Erf", "Exp", "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gelu",
    "Gemm", "Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "LayerNormalization",
    "Less", "LessOrEqual", "Log", "MatMul", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or",
    "Pad", "Pow", "RMSNormalization", "Range", "Reciprocal", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Round",
    "ScatterND", "Shape", "Sigmoid", "Sign", "SimplifiedLayerNormalization", "Sin", "Size",
    "Slice", "Softmax", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile", "Transpose",
    "Trilu", "Unsqueeze", "Where", "Xor"};
constexpr const char *kAttributes[] = {
    "allowzero", "alpha", "approximate", "axes", "axis", "batch_dims", "beta", "end", "epsilon",
    "exclusive", "is_causal", "keepdims", "kv_num_heads", "max", "min", "mode",
    "noop_with_empty_axes", "num_outputs", "pads", "perm", "q_num_heads", "reduction",
    "reverse", "scale", "softcap", "split", "start", "to", "transA", "transB", "upper", "value",
    "value_float", "value_floats", "value_int", "value_ints"};
constexpr const char *kTexts[] = {
    "none", "tanh", "constant", "reflect", "edge", "add", "mul", "max", "linear"};

constexpr int kMostNodes = 12;

class Builder {
public:
  explicit Builder(std::string_view bytes) : in_(bytes) {}

  std::string model() {
    graph_ = model_.mutable_graph();
    model_.add_opset_import()->set_version(7 + next() % 18);
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
    auto *node = graph_->add_node();
    node->set_op_type(pick(kOps));
    unsigned shape = next();
    for (unsigned i = shape % 5; i > 0; --i) {
      // Half of all operands are the latest value.
      uint8_t which = next();
      node->add_input(which == 255 ? "" : which & 1 ? names_.back() : names_[which / 2 % names_.size()]);
    }
    for (unsigned i = shape / 5 % 4; i > 0; --i)
      addAttribute(*node->add_attribute());
    for (unsigned i = 0; i <= shape / 20 % 3; ++i) {
      std::string name = "v" + std::to_string(index) + "_" + std::to_string(i);
      node->add_output(name);
      names_.push_back(name);
    }
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
  test::importModel(Builder(test::view(data, size)).model(), importOnnx);
  return 0;
}

// Small parts of the ONNX reader that whole models reach only in passing.
#include "Check.h"

#include "lib/onnx/fold/Fold.h"
#include "lib/onnx/bind/View.h"
#include "lib/onnx/file/WireScan.h"

#include <cmath>

using namespace llmc;
using namespace llmc::onnximport;

namespace {

HostTensor ints(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> values) {
  HostTensor out(Element::I64, shape);
  out.ints.assign(values.begin(), values.end());
  return out;
}

HostTensor scalar(int64_t value) { return ints({}, {value}); }

struct Attribute {
  const char *name;
  std::vector<int64_t> values; // one: an int
  bool list = false;
};

::onnx::NodeProto node(const char *op, std::vector<Attribute> attributes = {}, int outputs = 1) {
  ::onnx::NodeProto proto;
  proto.set_op_type(op);
  for (const Attribute &a : attributes) {
    auto *attribute = proto.add_attribute();
    attribute->set_name(a.name);
    if (a.values.size() == 1 && !a.list)
      attribute->set_i(a.values[0]);
    else
      for (int64_t v : a.values)
        attribute->add_ints(v);
  }
  for (int i = 0; i < outputs; ++i)
    proto.add_output("out" + std::to_string(i));
  return proto;
}

void expectInts(const ::onnx::NodeProto &proto, std::vector<HostTensor> operands,
                llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> values) {
  std::vector<const HostTensor *> pointers;
  for (HostTensor &t : operands)
    pointers.push_back(&t);
  Node n(proto, 18);
  FoldFunction fold = findFold(n.op());
  ASSERT_TRUE(fold) << proto.op_type() + " folds";
  auto result = fold({n, pointers});
  ASSERT_TRUE(bool(result)) << proto.op_type() + (result ? "" : ": " + result.message());
  const HostTensor &got = result->front();
  EXPECT_TRUE(llvm::ArrayRef<int64_t>(got.shape) == shape &&
              llvm::ArrayRef<int64_t>(got.ints) == values)
      << proto.op_type() + " gives " + toText(got.shape) + " " + toText(got.ints);
}

void expectError(const ::onnx::NodeProto &proto, std::vector<HostTensor> operands) {
  std::vector<const HostTensor *> pointers;
  for (HostTensor &t : operands)
    pointers.push_back(&t);
  Node n(proto, 18);
  EXPECT_TRUE(!findFold(n.op())({n, pointers})) << proto.op_type() + " refuses bad operands";
}

TEST(Folding, Ops) {
  constexpr int64_t most = INT64_MAX, least = INT64_MIN;
  HostTensor five = ints({5}, {10, 11, 12, 13, 14});
  expectInts(node("Slice"), {five, ints({1}, {-2}), ints({1}, {most})}, {2}, {13, 14});
  expectInts(node("Slice"), {five, ints({1}, {least}), ints({1}, {-2})}, {3}, {10, 11, 12});
  expectInts(node("Slice"), {five, ints({1}, {-1}), ints({1}, {least}), ints({1}, {0}),
                             ints({1}, {-2})}, {3}, {14, 12, 10});
  expectInts(node("Slice"), {five, ints({1}, {4}), ints({1}, {2})}, {0}, {});
  expectInts(node("Reshape"), {ints({2, 3}, {0, 1, 2, 3, 4, 5}), ints({2}, {0, -1})}, {2, 3},
             {0, 1, 2, 3, 4, 5});
  expectInts(node("Gather", {{"axis", {1}}}), {ints({2, 3}, {0, 1, 2, 3, 4, 5}), scalar(-1)}, {2},
             {2, 5});
  expectInts(node("GatherND"), {ints({2, 2}, {0, 1, 2, 3}), ints({2, 2}, {0, 1, 1, -2})}, {2},
             {1, 2});
  expectInts(node("CumSum"), {ints({2, 3}, {1, 1, 1, 2, 2, 2}), scalar(-1)}, {2, 3},
             {1, 2, 3, 2, 4, 6});
  expectInts(node("CumSum", {{"exclusive", {1}}, {"reverse", {1}}}),
             {ints({3}, {1, 2, 3}), scalar(0)}, {3}, {5, 3, 0});
  expectInts(node("Trilu", {{"upper", {0}}}), {ints({2, 2}, {1, 2, 3, 4})}, {2, 2}, {1, 0, 3, 4});
  expectInts(node("Range"), {scalar(1), scalar(7), scalar(3)}, {2}, {1, 4});
  expectInts(node("Expand"), {ints({2, 1}, {1, 2}), ints({3}, {2, 1, 2})}, {2, 2, 2},
             {1, 1, 2, 2, 1, 1, 2, 2});
  expectInts(node("Tile"), {ints({2}, {1, 2}), ints({1}, {2})}, {4}, {1, 2, 1, 2});
  expectInts(node("Concat", {{"axis", {-1}}}), {ints({1, 1}, {1}), ints({1, 2}, {2, 3})}, {1, 3},
             {1, 2, 3});
  expectInts(node("Where"), {ints({2}, {1, 0}), scalar(7), ints({2}, {8, 9})}, {2}, {7, 9});
  expectInts(node("Mod"), {scalar(-3), scalar(2)}, {}, {1});
  expectInts(node("Transpose", {{"perm", {1, 0}}}), {ints({2, 2}, {1, 2, 3, 4})}, {2, 2},
             {1, 3, 2, 4});
  expectInts(node("ReduceMax", {{"keepdims", {0}}}), {ints({2, 2}, {1, 2, 3, 4})}, {}, {4});
  // Beyond the numbers that a double holds.
  constexpr int64_t odd = (int64_t(1) << 60) + 1;
  expectInts(node("Neg"), {scalar(odd)}, {}, {-odd});
  expectInts(node("Abs"), {scalar(-odd)}, {}, {odd});
  expectInts(node("Relu"), {scalar(odd)}, {}, {odd});
  expectInts(node("Clip"), {scalar(odd + 9), scalar(0), scalar(odd)}, {}, {odd});
  for (const char *op : {"ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceMean"})
    expectInts(node(op, {{"keepdims", {0}}}), {ints({1}, {odd})}, {}, {odd});
  for (const char *op : {"ReduceMax", "ReduceMin", "Max", "Min"}) {
    HostTensor numbers(Element::F32, {3}), one(Element::F32, {1});
    numbers.floats = {1, NAN, 2};
    ::onnx::NodeProto proto = node(op);
    Node n(proto, 18);
    auto result = findFold(op)({n, {&numbers, op[0] == 'R' ? nullptr : &one}});
    EXPECT_TRUE(result && std::isnan(result->front().floats[op[0] == 'R' ? 0 : 1]))
        << std::string(op) + " keeps a NaN";
  }
  expectInts(node("Split", {{"axis", {0}}}, 2), {five}, {3}, {10, 11, 12});
  expectInts(node("Unsqueeze"), {ints({2}, {1, 2}), ints({2}, {0, -1})}, {1, 2, 1}, {1, 2});
  expectError(node("Div"), {scalar(1), scalar(0)});
  expectError(node("Gather"), {five, scalar(5)});
  expectError(node("Reshape"), {five, ints({1}, {4})});
  expectError(node("Range"), {scalar(0), scalar(most), scalar(1)});
  expectError(node("Expand"), {five, ints({2}, {most, 5})});
  expectError(node("Transpose", {{"perm", {0, 0}}}), {ints({1, 1}, {1})});
  expectError(node("Slice"), {five, ints({1}, {0}), ints({1}, {1}), ints({1}, {3})});
}

TEST(Folding, Views) {
  View whole = View::whole(0, {4, 6});
  auto grouped = whole.reshaped({4, 2, 3});
  EXPECT_TRUE((grouped && grouped->strides == Shape{6, 3, 1})) << "a dim splits";
  auto swapped = whole.transposed({1, 0});
  EXPECT_TRUE(!swapped.reshaped({24})) << "a transposed matrix is not a vector";
  auto joined = swapped.reshaped({2, 3, 4});
  EXPECT_TRUE((joined && joined->strides == Shape{3, 1, 6}))
      << "a dim of a transposed matrix splits";
  View left = whole.sliced({0, 0}, {4, 2}), right = whole.sliced({0, 2}, {4, 4});
  EXPECT_TRUE(coversExactly({&left, &right}, 24)) << "two slices tile a matrix";
  View overlap = whole.sliced({0, 1}, {4, 4});
  EXPECT_TRUE(!coversExactly({&left, &overlap}, 24)) << "overlapping slices do not";
  EXPECT_TRUE(!coversExactly({&left}, 24)) << "one slice does not";
  View odd = whole.sliced({0, 0}, {4, 3}), even = whole.sliced({0, 3}, {4, 3});
  EXPECT_TRUE(coversExactly({&odd, &even}, 24) && !coversExactly({&odd, &odd}, 24))
      << "halves tile, one twice does not";
}

TEST(Folding, Scan) {
  auto scan = [](std::string bytes) {
    return bool(scanWire({reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()}));
  };
  EXPECT_TRUE(scan("")) << "an empty message is well formed";
  EXPECT_TRUE(!scan("hello, world")) << "text is not a message";
  EXPECT_TRUE(!scan(std::string("\x3a\x7f", 2))) << "a graph longer than the file";
  EXPECT_TRUE(!scan(std::string(11, '\xff'))) << "an endless number";
  EXPECT_TRUE(!scan(std::string("\x3a\x02\x2a\x05", 4))) << "an initializer longer than its graph";
}

} // namespace

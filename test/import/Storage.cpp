// Tests that one graph means the same wherever its tensors are stored, inside of the file or
// beside it, and in any type.
#include "Folder.h"
#include "GraphBuilder.h"

#include <algorithm>
#include <cstring>
#include <sys/resource.h>

using namespace llmc;
using namespace llmc::test;
using ::onnx::TensorProto;

namespace {

// logits = (x bias-added) reshaped to rows and back, times the head.
void build(Graph &g) {
  g.floats("bias", {width}, 4);
  g.floats("head", {width, 6}, 3);
  auto &shape = g.node("Constant", {}, {"shape"});
  auto &value = *shape.add_attribute();
  value.set_name("value");
  value.set_type(::onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(TensorProto::INT64);
  value.mutable_t()->add_dims(2);
  for (int64_t d : {int64_t(-1), width})
    value.mutable_t()->mutable_raw_data()->append(reinterpret_cast<const char *>(&d), sizeof d);
  g.node("Add", {"x", "bias"}, {"y"});
  g.node("Reshape", {"y", "shape"}, {"rows"});
  g.node("MatMul", {"rows", "head"}, {"logits"});
}

void setEntry(TensorProto &tensor, const char *key, const std::string &text) {
  for (auto &entry : *tensor.mutable_external_data())
    if (entry.key() == key)
      return entry.set_value(text);
  auto &entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(text);
}

// Moves a tensor's bytes to the end of `data`.
void moveOut(TensorProto &tensor, std::string &data, const char *file) {
  setEntry(tensor, "location", file);
  setEntry(tensor, "offset", std::to_string(data.size()));
  setEntry(tensor, "checksum", "0000");
  data += tensor.raw_data();
  tensor.clear_raw_data();
  tensor.set_data_location(TensorProto::EXTERNAL);
}

// All tensors, those of Constant nodes too.
std::string moveAllOut(Graph &g, const char *file) {
  std::string data = "some bytes that are no tensor";
  for (auto &tensor : *g.graph.mutable_initializer())
    moveOut(tensor, data, file);
  for (auto &node : *g.graph.mutable_node())
    for (auto &attribute : *node.mutable_attribute())
      if (attribute.has_t())
        moveOut(*attribute.mutable_t(), data, file);
  return data;
}

TEST(Storage, External) {
  Graph inside, outside;
  build(inside);
  build(outside);
  Outcome expected = run(inside);
  EXPECT_TRUE(expected.message.empty()) << "inside: " + expected.message;
  std::string data = moveAllOut(outside, "weights/model.bin"),
              model = outside.model.SerializeAsString();
  Folder folder;
  std::string path = folder.write("model.onnx", model);
  folder.write("weights/model.bin", data);
  same("weights in a folder of their own", run(path), expected, 3);

  // A model cache: both files are links to where they lie under their hashes.
  folder.write("cache/blobs/0a", model);
  folder.write("cache/blobs/0b", data);
  folder.link("cache/snapshots/main/model.onnx", "../../blobs/0a");
  folder.link("cache/snapshots/main/weights/model.bin", "../../../blobs/0b");
  same("a model cache", run(folder / "cache/snapshots/main/model.onnx"), expected, 3);

  folder.write("elsewhere", data);
  folder.write("linked/model.onnx", model);
  folder.link("linked/weights/model.bin", "../../elsewhere");
  refuses("a link to elsewhere", run(folder / "linked/model.onnx"), {"link", "elsewhere"});
  folder.write("folder/model.onnx", model);
  folder.write("folder/weights/model.bin/file", data);
  refuses("a folder as weights", run(folder / "folder/model.onnx"), {"not a file"});
}

TEST(Storage, BrokenExternal) {
  struct Broken {
    const char *key, *value;
    std::initializer_list<const char *> words;
  };
  for (const Broken &c : std::initializer_list<Broken>{
           {"location", "../model.bin", {"leaves its folder"}},
           {"location", "a/../../model.bin", {"leaves its folder"}},
           {"location", "/etc/passwd", {"leaves its folder"}},
           {"location", "", {"no location"}},
           {"location", "none.bin", {"none.bin", "missing"}},
           {"offset", "-4", {"offset", "-4"}},
           {"offset", "0x10", {"offset", "0x10"}},
           {"offset", "99999999999999999999", {"offset"}},
           {"offset", "1000", {"model.bin", "from byte 1000"}},
           {"length", "1000", {"model.bin", "1000"}},
           {"length", "4", {"needs 96 bytes", "4"}}}) {
    Graph g;
    build(g);
    std::string data = moveAllOut(g, "model.bin");
    setEntry(*g.graph.mutable_initializer(2), c.key, c.value);
    Folder folder;
    folder.write("model.bin", data);
    Outcome got = run(folder.write("model.onnx", g.model.SerializeAsString()));
    std::string what = std::string(c.key) + " '" + c.value + "'";
    refuses(what, got, c.words);
    refuses(what, got, {"'head'", "model.onnx"});
  }
}

// 20 GB of weights that take no space on the disk: only their places are read.
TEST(Storage, Large) {
  Graph g;
  build(g);
  std::string data = moveAllOut(g, "model.bin");
  constexpr int64_t rows = 2500000, columns = 1024;
  constexpr uint64_t bytes = uint64_t(rows) * columns * 4;
  auto &table = *g.graph.mutable_initializer(0), &bias = *g.graph.mutable_initializer(1),
       &head = *g.graph.mutable_initializer(2);
  auto resize = [](TensorProto &tensor, std::initializer_list<int64_t> dims) {
    tensor.clear_dims();
    for (int64_t d : dims)
      tensor.add_dims(d);
  };
  resize(table, {rows, columns});
  resize(bias, {columns});
  resize(head, {columns, rows});
  g.graph.mutable_node(1)->mutable_attribute(0)->mutable_t()->clear_external_data();
  auto &shape = *g.graph.mutable_node(1)->mutable_attribute(0)->mutable_t();
  shape.set_data_location(TensorProto::DEFAULT);
  shape.add_int64_data(-1);
  shape.add_int64_data(columns);
  setEntry(table, "offset", "0");
  setEntry(bias, "offset", std::to_string(2 * bytes));
  setEntry(head, "offset", std::to_string(bytes));
  Folder folder;
  std::string path = folder.write("model.onnx", g.model.SerializeAsString());
  folder.write("model.bin", "x"); // so that the two matrices differ at once
  std::filesystem::resize_file(folder / "model.bin", 2 * bytes + columns * 4);
  auto peak = [] {
    rusage usage;
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  };
  long before = peak();
  mlir::MLIRContext context;
  std::string message;
  auto module = import(context, path, optionsFor(1, 8), message);
  EXPECT_TRUE(bool(module)) << "20 GB of weights: " + message;
  EXPECT_TRUE(peak() - before < 128)
      << "20 GB of weights take " + std::to_string(peak() - before) + " MiB";
}

//===-- Types -----------------------------------------------------------------===//

uint16_t halfOf(float value) { // of numbers that a half holds
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (value == 0)
    return bits >> 16;
  return (bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10 & 0x7c00) | (bits >> 13 & 0x3ff);
}

// Rounds the floats of a tensor to eighths, which every type holds, and stores
// them as `type`.
void retype(TensorProto &tensor, int32_t type) {
  std::string old = tensor.raw_data(), bytes;
  for (size_t i = 0; i < old.size(); i += 4) {
    float value;
    std::memcpy(&value, &old[i], 4);
    value = std::round(value * 8) / 8;
    double wide = value;
    uint16_t half = halfOf(value);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    uint16_t top = bits >> 16;
    if (type == TensorProto::FLOAT)
      bytes.append(reinterpret_cast<char *>(&value), 4);
    if (type == TensorProto::DOUBLE)
      bytes.append(reinterpret_cast<char *>(&wide), 8);
    if (type == TensorProto::FLOAT16)
      bytes.append(reinterpret_cast<char *>(&half), 2);
    if (type == TensorProto::BFLOAT16)
      bytes.append(reinterpret_cast<char *>(&top), 2);
  }
  tensor.set_raw_data(bytes);
  tensor.set_data_type(type);
}

TEST(Storage, FloatTypes) {
  Graph single;
  build(single);
  for (auto &tensor : *single.graph.mutable_initializer())
    retype(tensor, TensorProto::FLOAT);
  Outcome expected = run(single);
  EXPECT_TRUE(expected.message.empty() && expected.notes.empty()) << "floats: " + expected.message;
  for (int32_t type : {TensorProto::FLOAT16, TensorProto::BFLOAT16, TensorProto::DOUBLE}) {
    Graph g;
    build(g);
    for (auto &tensor : *g.graph.mutable_initializer())
      retype(tensor, type);
    Outcome got = run(g);
    std::string what = "weights of type " + std::to_string(type);
    same(what, got, expected, 3);
    EXPECT_TRUE(got.notes.empty()) << what + ": " + got.notes;
  }
  // The standard wants one type; the values are clear all the same.
  Graph mixed;
  build(mixed);
  for (int i = 0; i < 3; ++i)
    retype(*mixed.graph.mutable_initializer(i), i == 2 ? TensorProto::FLOAT : TensorProto::FLOAT16);
  Outcome got = run(mixed);
  same("mixed types", got, expected, 3);
  EXPECT_TRUE(got.notes.find("'MatMul:logits'") != std::string::npos &&
              got.notes.find("float16") != std::string::npos)
      << "mixed types are noted: " + got.notes;
}

// Integers of any width as indices; ids of 32 bits.
TEST(Storage, IntegerTypes) {
  Graph wide;
  wide.ints("axes", {0, 2});
  wide.node("ReduceSum", {"x", "axes"}, {"y"});
  wide.floats("head", {3, 6}, 3);
  auto finish = [](Graph &g) {
    g.node("Reshape", {"y", "shape"}, {"row"});
    g.node("MatMul", {"row", "head"}, {"z"});
    g.node("Expand", {"z", "to"}, {"logits"});
    g.ints("shape", {1, 1, 3});
    g.ints("to", {2, 3, 6});
  };
  finish(wide);
  Outcome expected = run(wide);
  EXPECT_TRUE(expected.message.empty()) << "reduction: " + expected.message;
  Graph g;
  g.graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::INT32);
  auto &axes = *g.graph.add_initializer();
  axes.set_name("narrow");
  axes.set_data_type(TensorProto::UINT8);
  axes.add_dims(2);
  axes.set_raw_data(std::string("\0\2", 2));
  Graph::attribute(g.node("Cast", {"narrow"}, {"axes"}), "to", {TensorProto::INT64});
  g.node("ReduceSum", {"x", "axes"}, {"y"});
  g.floats("head", {3, 6}, 3);
  finish(g);
  same("narrow integers", g, expected, 2);
}

TEST(Storage, EmptyWeights) {
  Graph g;
  g.floats("none", {width, 0}, 2);
  g.node("MatMul", {"x", "none"}, {"y"});
  g.floats("head", {0, 6}, 3);
  g.node("MatMul", {"y", "head"}, {"logits"});
  refuses("a weight without elements", run(g), {"'MatMul:y'", "'none'", "[4, 0]", "no elements"});
}

} // namespace

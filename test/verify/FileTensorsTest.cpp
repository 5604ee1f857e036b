// Tests that damaged files of weights give errors, or no tensors; none ends the process.
#include "lib/verify/source/FileTensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace llmc;
using namespace llmc::verify;
namespace fs = std::filesystem;

namespace {

class FileTensors : public ::testing::Test {
protected:
  FileTensors() { fs::create_directories(folder); }
  ~FileTensors() override { fs::remove_all(folder); }

  std::string write(const std::string &name, const std::string &bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  }

  fs::path folder = fs::temp_directory_path() / ("llmc-file-tensors-" + std::to_string(::getpid()));
  FileModel model;
};

std::string safetensors(const std::string &entry) {
  std::string header = "{\"w\": " + entry + "}";
  uint64_t size = header.size();
  return std::string(reinterpret_cast<const char *>(&size), 8) + header + std::string(8, '\0');
}

TEST_F(FileTensors, SafetensorsHeaders) {
  std::string good = R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})";
  ASSERT_TRUE(bool(addFile(write("good.safetensors", safetensors(good)), model)));
  ASSERT_EQ(model.tensors.size(), 1u);
  EXPECT_EQ(model.tensors[0].shape, std::vector<int64_t>{2});
  for (const char *bad : {"3", "[]", "{}", R"({"dtype": 4, "shape": [2], "data_offsets": [0, 8]})",
                          R"({"dtype": "F32", "shape": "2", "data_offsets": [0, 8]})",
                          R"({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]})",
                          R"({"dtype": "F32", "shape": [2], "data_offsets": []})",
                          R"({"dtype": "F32", "shape": [2], "data_offsets": ["0", 8]})",
                          R"({"shape": [2], "data_offsets": [0, 8]})"}) {
    support::Status status = addFile(write("bad.safetensors", safetensors(bad)), model);
    ASSERT_FALSE(bool(status)) << bad;
    EXPECT_NE(status.message().find("tensor 'w' needs dtype, shape"), std::string::npos);
  }
}

// Encodes a length-delimited field of the protobuf wire format.
std::string field(int number, const std::string &text) {
  return std::string{char(number << 3 | 2), char(text.size())} + text;
}

TEST_F(FileTensors, OffsetsOfOnnx) {
  auto onnx = [](const std::string &offset) {
    auto entry = [](const std::string &key, const std::string &value) {
      return field(13, field(1, key) + field(2, value));
    };
    return field(7, field(5, field(8, "w") + entry("location", "data") + entry("offset", offset)));
  };
  ASSERT_TRUE(bool(addFile(write("good.onnx", onnx("12")), model)));
  ASSERT_EQ(model.tensors.size(), 1u);
  EXPECT_EQ(model.tensors[0].offset, 12u);
  for (const char *bad : {"", "x", "12x", "-1", "99999999999999999999"})
    EXPECT_TRUE(bool(addFile(write("bad.onnx", onnx(bad)), model))) << bad;
  EXPECT_EQ(model.tensors.size(), 1u);
}

} // namespace

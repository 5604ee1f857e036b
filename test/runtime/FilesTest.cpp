// Readers of files that others wrote: no bytes may crash them.
#include "PlanBuilder.h"
#include "lib/planfile/Payload.h"
#include "lib/support/Json.h"
#include "lib/support/Npy.h"
#include "lib/support/Safetensors.h"

#include <cmath>
#include <cstring>
#include <elf.h>
#include <sys/stat.h>

using namespace llmc;
using namespace llmc::test;
using support::ElementType;
using support::SafetensorsFile;
using support::TensorToWrite;

namespace {

std::string tensorFile(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + header + data;
}

TEST(Safetensors, RoundTrip) {
  TemporaryFolder folder;
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<double> b = {7.5};
  auto bytes = [](const auto &values) {
    return [&values](const TensorToWrite::Sink &sink) {
      return sink(values.data(), values.size() * sizeof values[0]);
    };
  };
  auto status = support::writeSafetensors(folder / "x.safetensors",
                                          {{"a", ElementType::F32, {2, 3}, bytes(a)},
                                           {"b\"\xc3\xa9", ElementType::F64, {}, bytes(b)},
                                           {"empty", ElementType::I64, {0, 5},
                                            [](const auto &) { return support::ok(); }}},
                                          {{"format", "pt"}});
  ASSERT_TRUE(bool(status)) << status.message();
  auto file = SafetensorsFile::open(folder / "x.safetensors");
  ASSERT_TRUE(bool(file)) << file.message();
  ASSERT_EQ(file->tensors().size(), 3u);
  const auto &tensor = file->tensors().find("a")->second;
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(tensor.data, a.data(), 24), 0);
  EXPECT_EQ(support::readAsDouble(ElementType::F64, file->tensors().find("b\"\xc3\xa9")->second.data, 0), 7.5);
  EXPECT_EQ(file->metadata().at("format"), "pt");
}

TEST(Safetensors, MalformedHeaders) {
  TemporaryFolder folder;
  const std::string data(24, 'x');
  const std::string good = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  auto why = [&](const std::string &bytes) {
    writeBytes(folder / "x", bytes);
    auto file = SafetensorsFile::open(folder / "x");
    return file ? std::string() : file.message();
  };
  EXPECT_EQ(why(tensorFile(good, data)), "");
  const char *bad[] = {
      "",
      "[]",
      "{",
      "null",
      R"({"a":1})",
      R"({"a":{}})",
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,25]}})",
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[24,0]}})",
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0]}})",
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[-8,16]}})",
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0.0,24.0]}})",
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":["0","24"]}})",
      R"({"a":{"dtype":"F32","shape":[2,-3],"data_offsets":[0,24]}})",
      R"({"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,24]}})",
      R"({"a":{"dtype":"F32","shape":[2,"3"],"data_offsets":[0,24]}})",
      R"({"a":{"dtype":"F32","shape":6,"data_offsets":[0,24]}})",
      R"({"a":{"dtype":"F33","shape":[2,3],"data_offsets":[0,24]}})",
      R"({"a":{"dtype":7,"shape":[2,3],"data_offsets":[0,24]}})",
      R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,24]}})",
      R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,24]}})",
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,18446744073709551615]}})",
      R"({"__metadata__":3,"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
  };
  for (const char *header : bad)
    EXPECT_NE(why(tensorFile(header, data)), "") << header;
  EXPECT_NE(why(tensorFile(std::string(100000, '['), data)), "");
  // Two tensors may touch, and an empty one may lie anywhere; none may share a byte, and none may be left.
  auto pair = [](int first, int end) {
    return R"({"a":{"dtype":"U8","shape":[12],"data_offsets":[0,12]},"b":{"dtype":"U8","shape":[)" +
           std::to_string(end - first) + R"(],"data_offsets":[)" + std::to_string(first) + "," +
           std::to_string(end) + "]}}";
  };
  EXPECT_EQ(why(tensorFile(pair(12, 24), data)), "");
  EXPECT_EQ(why(tensorFile(pair(6, 6), data.substr(12))), "");
  for (auto [first, end] : {std::pair(12, 23), std::pair(13, 24), std::pair(12, 12)})
    EXPECT_NE(why(tensorFile(pair(first, end), data)).find("belong to no tensor"), std::string::npos);
  for (auto [first, end] : {std::pair(11, 24), std::pair(0, 12), std::pair(3, 5)})
    EXPECT_NE(why(tensorFile(pair(first, end), data)).find("tensors overlap: 'a' and 'b'"),
              std::string::npos);
  EXPECT_NE(why(std::string(8, '\xff') + good), "");
  std::string whole = tensorFile(good, data);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(why(whole.substr(0, size)), "") << size;
}

TEST(Safetensors, FolderWithIndex) {
  TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  writeBytes(folder / "one.safetensors", tensorFile(header, "1234"));
  auto set = support::SafetensorsSet::open(folder.path);
  ASSERT_TRUE(bool(set)) << set.message();
  EXPECT_NE(set->find("a"), nullptr);
  writeBytes(folder / "model.safetensors.index.json", R"({"weight_map":{"a":"../x"}})");
  EXPECT_FALSE(bool(support::SafetensorsSet::open(folder.path)));
  writeBytes(folder / "model.safetensors.index.json", R"({"weight_map":{"a":"two.safetensors"}})");
  EXPECT_FALSE(bool(support::SafetensorsSet::open(folder.path)));
  std::string index = folder / "model.safetensors.index.json";
  writeBytes(index, R"({"weight_map":{"a":"one.safetensors"}})");
  EXPECT_TRUE(bool(support::SafetensorsSet::open(folder.path)));
  // Readers differ in which of the two they take, unless the index names the one.
  writeBytes(folder / "model.safetensors", tensorFile(header, "5678"));
  auto both = support::SafetensorsSet::open(folder.path);
  ASSERT_FALSE(bool(both));
  EXPECT_NE(both.message().find("two models"), std::string::npos) << both.message();
  for (auto [name, value] : {std::pair(index, "1234"), std::pair(folder / "model.safetensors", "5678")}) {
    auto one = support::SafetensorsSet::open(name);
    ASSERT_TRUE(bool(one)) << one.message();
    EXPECT_EQ(std::memcmp(one->find("a")->data, value, 4), 0) << name;
  }
  writeBytes(index, R"({"weight_map":{"a":"model.safetensors"}})");
  EXPECT_TRUE(bool(support::SafetensorsSet::open(folder.path)));
}

TEST(ElementTypes, HalfAndBfloat) {
  EXPECT_EQ(support::halfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(support::halfToFloat(0xc000), -2.0f);
  EXPECT_EQ(support::halfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(support::halfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(support::halfToFloat(0x8000), -0.0f);
  EXPECT_TRUE(std::isinf(support::halfToFloat(0xfc00)));
  EXPECT_TRUE(std::isnan(support::halfToFloat(0x7e00)));
  EXPECT_EQ(support::bfloatToFloat(0x3f80), 1.0f);
}

// Element [i, j, k] is 100 i + 10 j + k, the first index fastest.
// The parser recurses once per level; brackets in strings are no levels.
TEST(Json, IsNestedAThousandLevelsAtMost) {
  auto nested = [](size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_TRUE(bool(support::parseJson(nested(1000), "x")));
  auto deep = support::parseJson(nested(1001), "config.json");
  ASSERT_FALSE(bool(deep));
  EXPECT_EQ(deep.message(), "config.json: JSON is nested more than 1000 levels deep");
  EXPECT_FALSE(bool(support::parseJson(std::string(1000000, '['), "x")));
  EXPECT_TRUE(bool(support::parseJson("\"\\\"" + std::string(2000, '[') + "\"", "x")));
  EXPECT_FALSE(bool(support::parseJson("{\"a\": }", "x")));
}

TEST(Json, MistakesHaveAPlace) {
  auto said = [](const char *text) { return support::parseJson(text, "x").message(); };
  EXPECT_EQ(said("{\n  \"eps\": NaN,\n  \"b\": 1}"), "x: not valid JSON: line 2, column 10, at \"eps\": found 'NaN'");
  EXPECT_EQ(said("{\"a\": [1, -Infinity]}"), "x: not valid JSON: line 1, column 11, at \"a\": found '-Infinity'");
  EXPECT_EQ(said("{\"a\": }"), "x: not valid JSON: line 1, column 7, at \"a\": found '}'");
  EXPECT_EQ(said("nope"), "x: not valid JSON: line 1, column 1: found 'nope'");
  for (const char *cut : {"", "{\"a\": 1", "{\"a\": 1,\n"})
    EXPECT_NE(said(cut).find("found the end of the text"), std::string::npos) << said(cut);
  EXPECT_NE(said("{\"a\": \"\xff\"}").find("line 1, column 8"), std::string::npos) << said("{\"a\": \"\xff\"}");
}

TEST(Npy, FortranOrder) {
  TemporaryFolder folder;
  std::vector<int64_t> values, turned;
  for (int64_t k = 0; k < 4; ++k)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t i = 0; i < 2; ++i)
        values.push_back(100 * i + 10 * j + k);
  writeNpy(folder / "x.npy", {2, 3, 4}, values);
  std::string bytes = *support::readFile(folder / "x.npy");
  writeBytes(folder / "x.npy", bytes.replace(bytes.find("False"), 5, "True "));
  auto file = support::NpyFile::open(folder / "x.npy");
  ASSERT_TRUE(bool(file)) << file.message();
  for (size_t at = 0; at < values.size(); ++at)
    turned.push_back(support::readAsInteger(file->type(), file->data(), at));
  std::vector<int64_t> want;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 4; ++k)
        want.push_back(100 * i + 10 * j + k);
  EXPECT_EQ(turned, want);
}

// Checks that a tensor of any rank and type that was written is read back.
TEST(Npy, RoundTrip) {
  TemporaryFolder folder;
  std::vector<std::byte> bytes(48);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = std::byte(i);
  for (ElementType type : {ElementType::F32, ElementType::I64, ElementType::Bool, ElementType::F16})
    for (int64_t columns : {0, 1, 3})
      for (std::vector<int64_t> shape : {std::vector<int64_t>{}, {columns}, {2, columns}}) {
        size_t size = *support::elementCount(shape) * support::byteSize(type);
        auto status = support::writeNpy(folder / "x.npy", type, shape, {bytes.data(), size});
        ASSERT_TRUE(bool(status)) << status.message();
        auto file = support::NpyFile::open(folder / "x.npy");
        ASSERT_TRUE(bool(file)) << file.message();
        EXPECT_EQ(file->type(), type);
        EXPECT_EQ(file->shape(), shape);
        EXPECT_EQ(std::memcmp(file->data(), bytes.data(), size), 0);
      }
  EXPECT_FALSE(bool(support::writeNpy(folder / "x.npy", ElementType::BF16, {1}, {bytes.data(), 2})));
}

TEST(Npy, Malformed) {
  TemporaryFolder folder;
  writeNpy(folder / "x.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
  auto good = support::NpyFile::open(folder / "x.npy");
  ASSERT_TRUE(bool(good)) << good.message();
  EXPECT_EQ(good->shape(), (std::vector<int64_t>{2, 3}));
  auto whole = support::readFile(folder / "x.npy");
  ASSERT_TRUE(bool(whole));
  auto opens = [&](const std::string &bytes) {
    writeBytes(folder / "y.npy", bytes);
    return bool(support::NpyFile::open(folder / "y.npy"));
  };
  for (size_t size = 0; size < whole->size(); ++size)
    EXPECT_FALSE(opens(whole->substr(0, size))) << size;
  for (size_t i = 0; i < 128; ++i) { // never a crash
    std::string changed = *whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    opens(changed);
  }
  auto with = [&](const std::string &from, const std::string &to) {
    std::string changed = *whole;
    changed.replace(changed.find(from), from.size(), to);
    return opens(changed);
  };
  EXPECT_FALSE(with("False", "Maybe"));
  EXPECT_FALSE(with("<i8", ">i8"));
  EXPECT_FALSE(with("<i8", "|O8"));
  EXPECT_FALSE(with("(2,3,)", "(2,-3)"));
  EXPECT_FALSE(with("(2,3,)", "(99,9)"));
}

// An executable as small as can be: the header alone.
std::string tinyExecutable() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  return std::string(reinterpret_cast<const char *>(&header), sizeof header);
}

TEST(Payload, RoundTripAndRepack) {
  TemporaryFolder folder;
  writeBytes(folder / "rt", tinyExecutable());
  std::string big(100000, 'k');
  Section sections[] = {{"plan", "the plan"}, {"kernels", big}, {"empty", ""}};
  ASSERT_TRUE(bool(writePayload(folder / "rt", sections, folder / "out")));
  auto payload = Payload::open(folder / "out");
  ASSERT_TRUE(bool(payload)) << payload.message();
  EXPECT_EQ(*payload->section("plan"), "the plan");
  EXPECT_EQ(*payload->section("kernels"), big);
  EXPECT_EQ(*payload->section("empty"), "");
  EXPECT_FALSE(bool(payload->section("other")));
  struct stat info;
  ASSERT_EQ(::stat((folder / "out").c_str(), &info), 0);
  EXPECT_TRUE(info.st_mode & S_IXUSR);
  // A program's own payload does not travel into the next one.
  Section other[] = {{"plan", "another"}};
  ASSERT_TRUE(bool(writePayload(folder / "out", other, folder / "out2")));
  auto second = Payload::open(folder / "out2");
  ASSERT_TRUE(bool(second));
  EXPECT_EQ(*second->section("plan"), "another");
  EXPECT_FALSE(bool(second->section("kernels")));
}

TEST(Payload, EveryFlippedBitAndEveryCutIsFound) {
  TemporaryFolder folder;
  writeBytes(folder / "rt", tinyExecutable());
  Section sections[] = {{"plan", "some bytes of a plan"}, {"kernels", "and of code"}};
  ASSERT_TRUE(bool(writePayload(folder / "rt", sections, folder / "out")));
  auto whole = support::readFile(folder / "out");
  ASSERT_TRUE(bool(whole));
  size_t begin = tinyExecutable().size();
  for (size_t i = 0; i < whole->size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = *whole;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      writeBytes(folder / "bad", changed);
      EXPECT_FALSE(bool(Payload::open(folder / "bad"))) << "byte " << i << " bit " << bit;
    }
  for (size_t size = 0; size < whole->size(); ++size) {
    writeBytes(folder / "bad", whole->substr(0, size));
    auto payload = Payload::open(folder / "bad");
    ASSERT_FALSE(bool(payload)) << size;
    EXPECT_EQ(payload.message().find("damaged") != std::string::npos, size > begin) << size;
  }
  writeBytes(folder / "bad", *whole + "x");
  EXPECT_FALSE(bool(Payload::open(folder / "bad")));
}

TEST(Payload, UnwritableOutputs) {
  TemporaryFolder folder;
  writeBytes(folder / "rt", tinyExecutable());
  EXPECT_FALSE(bool(writePayload(folder / "rt", {}, folder / "no/such/folder")));
  EXPECT_FALSE(bool(writePayload(folder / "rt", {}, folder.path)));
  EXPECT_TRUE(bool(writePayload(folder / "rt", {}, "/dev/null"))); // a device takes all
  EXPECT_FALSE(bool(writePayload(folder / "missing", {}, folder / "out")));
  writeBytes(folder / "text", "not an executable, but long enough to be a header of an ELF file......");
  EXPECT_FALSE(bool(writePayload(folder / "text", {}, folder / "out")));
}

} // namespace

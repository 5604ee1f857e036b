#include "runtime/data/Data.h"
#include "PlanBuilder.h"
#include "Tokens.h"

#include <cstring>
#include <set>

using namespace llmc;
using namespace llmc::test;
using runtime::Data;
using runtime::DataOptions;

namespace {

constexpr int64_t kSeq = 4;

// Two data-parallel ranks, three micro-batches of one row: six rows a step.
std::unique_ptr<ProgramT> program(int64_t vocabulary = 100) {
  auto made = makeProgram({2, 1}, 1, 64, 1, 1, 3);
  made->global_batch = 6;
  made->model->vocabulary = vocabulary;
  for (const char *name : {"input_ids", "labels", "position_ids", "attention_mask"}) {
    auto input = std::make_unique<InputBindingT>();
    input->name = name;
    input->dtype = name[0] == 'l' ? DType::I32 : DType::I64;
    input->local_shape = {1, kSeq};
    input->batch_axes = {0};
    input->default_value = name[0] == 'p'   ? InputDefault::Positions
                           : name[0] == 'a' ? InputDefault::Ones
                                            : InputDefault::Required;
    made->inputs.push_back(std::move(input));
  }
  return made;
}

int64_t id(const Data &data, uint64_t row, uint64_t position) {
  return reinterpret_cast<const int64_t *>(data.batch()[0])[row * kSeq + position];
}
int32_t label(const Data &data, uint64_t row, uint64_t position) {
  return reinterpret_cast<const int32_t *>(data.batch()[1])[row * kSeq + position];
}

DataOptions tokensOf(const std::string &path, bool shuffle = true, uint64_t seed = 0) {
  DataOptions options;
  options.tokens = {{path, 1}};
  options.shuffle = shuffle;
  options.seed = seed;
  return options;
}

std::string failure(support::Result<Data> result) {
  return result ? "" : result.message();
}

TEST(Data, RowsInOrder) {
  TemporaryFolder folder;
  writeBytes(folder / "t.bin", raw<uint16_t>(counting(kSeq * 10 + 1)));
  auto plan = program();
  auto data = Data::open(*plan, tokensOf(folder / "t.bin", false, 0));
  ASSERT_TRUE(bool(data)) << data.message();
  EXPECT_EQ(data->stepsOfEpoch(), 1u); // 10 rows, 6 a step
  for (uint64_t step = 0; step < 4; ++step) {
    ASSERT_TRUE(bool(data->load(step)));
    for (uint64_t row = 0; row < 6; ++row)
      for (int64_t i = 0; i < kSeq; ++i) {
        int64_t first = int64_t((step * 6 + row) % 10) * kSeq + i;
        EXPECT_EQ(id(*data, row, i), first);
        EXPECT_EQ(label(*data, row, i), first + 1);
      }
  }
  const auto *positions = reinterpret_cast<const int64_t *>(data->batch()[2]);
  const auto *mask = reinterpret_cast<const int64_t *>(data->batch()[3]);
  for (int64_t i = 0; i < 6 * kSeq; ++i) {
    EXPECT_EQ(positions[i], i % kSeq);
    EXPECT_EQ(mask[i], 1);
  }
}

// An epoch takes every row once, in an order that seed and epoch pick; the order
// does not depend on which steps were loaded before.
TEST(Data, EpochsPermute) {
  TemporaryFolder folder;
  writeBytes(folder / "t.bin", raw<uint16_t>(counting(kSeq * 18 + 1)));
  auto plan = program();
  auto order = [&](uint64_t seed, uint64_t firstStep) {
    auto data = Data::open(*plan, tokensOf(folder / "t.bin", true, seed));
    EXPECT_TRUE(bool(data));
    std::vector<int64_t> rows;
    for (uint64_t step = firstStep; step < firstStep + 3; ++step) {
      EXPECT_TRUE(bool(data->load(step)));
      for (uint64_t row = 0; row < 6; ++row) {
        rows.push_back(id(*data, row, 0));
        EXPECT_EQ(label(*data, row, 0), id(*data, row, 1));
      }
    }
    return rows;
  };
  std::vector<int64_t> first = order(1, 0), second = order(1, 3);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 18u);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 18u);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, order(1, 0));
  EXPECT_NE(first, order(2, 0));
}

TEST(Data, WideVocabularyNeedsU32) {
  TemporaryFolder folder;
  writeBytes(folder / "t.bin", raw<uint32_t>(counting(kSeq * 6 + 1, 70000)));
  auto plan = program(70000);
  auto data = Data::open(*plan, tokensOf(folder / "t.bin", false, 0));
  ASSERT_TRUE(bool(data)) << data.message();
  ASSERT_TRUE(bool(data->load(0)));
  EXPECT_EQ(id(*data, 5, 3), 23);
}

TEST(Data, TokenOutsideOfTheVocabulary) {
  TemporaryFolder folder;
  std::vector<int64_t> values = counting(kSeq * 12 + 1);
  values[kSeq * 7 + 2] = 100;
  writeBytes(folder / "t.bin", raw<uint16_t>(values));
  auto plan = program();
  auto data = Data::open(*plan, tokensOf(folder / "t.bin", false, 0));
  ASSERT_TRUE(bool(data));
  EXPECT_TRUE(bool(data->load(0))); // only the step that uses it stops
  auto status = data->load(1);
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.message().find("token 100"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("row 7, position"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("vocabulary of 100"), std::string::npos);
}

TEST(Data, TooShort) {
  TemporaryFolder folder;
  writeBytes(folder / "t.bin", raw<uint16_t>(counting(kSeq * 6)));
  auto plan = program();
  std::string why = failure(Data::open(*plan, tokensOf(folder / "t.bin", true, 0)));
  EXPECT_NE(why.find("at least 25 tokens"), std::string::npos) << why;
  writeBytes(folder / "odd.bin", "abc");
  EXPECT_NE(failure(Data::open(*plan, tokensOf(folder / "odd.bin", true, 0))).find("multiple of 2"),
            std::string::npos);
  EXPECT_NE(failure(Data::open(*plan, tokensOf(folder / "none", true, 0))).find("cannot open"),
            std::string::npos);
  EXPECT_NE(failure(Data::open(*plan, {})).find("no data for the input 'input_ids'"),
            std::string::npos);
}

TEST(Data, ArraysInOrderAndAroundAgain) {
  TemporaryFolder folder;
  std::vector<int64_t> ids = counting(7 * kSeq), labels(7 * kSeq, -100);
  labels[5] = 3;
  writeNpy(folder / "ids.npy", {7, kSeq}, ids);
  writeNpy(folder / "labels.npy", {7, kSeq}, labels);
  auto plan = program();
  DataOptions options;
  options.arrays = {{"input_ids", folder / "ids.npy"}, {"labels", folder / "labels.npy"}};
  auto data = Data::open(*plan, options);
  ASSERT_TRUE(bool(data)) << data.message();
  ASSERT_TRUE(bool(data->load(1)));
  EXPECT_EQ(id(*data, 0, 0), 6 * kSeq); // row 6, then around again
  EXPECT_EQ(id(*data, 1, 0), 0);
  EXPECT_EQ(label(*data, 2, 1), 3);
  EXPECT_EQ(label(*data, 2, 2), -100);
}

TEST(Data, WrongArrays) {
  TemporaryFolder folder;
  auto plan = program();
  auto why = [&](const std::string &name, std::vector<int64_t> shape, int64_t value) {
    uint64_t count = 1;
    for (int64_t dim : shape)
      count *= uint64_t(dim);
    writeNpy(folder / "x.npy", shape, std::vector<int64_t>(count, value));
    writeNpy(folder / "ok.npy", {6, kSeq}, std::vector<int64_t>(6 * kSeq, 1));
    DataOptions options;
    options.arrays = {{"input_ids", folder / "ok.npy"}, {"labels", folder / "ok.npy"}};
    options.arrays[name] = folder / "x.npy";
    auto data = Data::open(*plan, options);
    if (!data)
      return data.message();
    auto status = data->load(0);
    return status ? std::string() : status.message();
  };
  EXPECT_EQ(why("input_ids", {6, kSeq}, 5), "");
  EXPECT_NE(why("input_ids", {6, 5}, 5).find("rows of [4]"), std::string::npos);
  EXPECT_NE(why("input_ids", {5, kSeq}, 5).find("has 5 rows"), std::string::npos);
  EXPECT_NE(why("labels", {7, kSeq}, 5).find("input_ids has 6 rows, labels has 7 rows"),
            std::string::npos);
  EXPECT_NE(why("nothing", {6, kSeq}, 5).find("no such input"), std::string::npos);
  EXPECT_NE(why("input_ids", {6, kSeq}, -1).find("token -1"), std::string::npos);
  EXPECT_NE(why("input_ids", {6, kSeq}, -100).find("token -100"), std::string::npos);
  EXPECT_EQ(why("labels", {6, kSeq}, -100), "");
  EXPECT_NE(why("labels", {6, kSeq}, -99).find("row 0, position 0"), std::string::npos);
}

// The whole rows are loaded where ranks cut them, in the order that the plan gives their blocks;
// positions and row numbers go with them.
TEST(Data, PermutedRowsAndRowIds) {
  TemporaryFolder folder;
  writeBytes(folder / "t.bin", raw<uint16_t>(counting(8 * 10 + 1)));
  auto made = makeProgram({2, 1, 2}, 1, 64, 1, 1, 3);
  made->global_batch = 6;
  made->model->vocabulary = 100;
  for (const char *name : {"input_ids", "labels", "positions", "row_ids"}) {
    auto input = std::make_unique<InputBindingT>();
    input->name = name;
    input->dtype = DType::I64;
    input->local_shape = {1, 4};
    input->batch_axes = {0};
    if (name[0] == 'r') {
      input->local_shape = {1};
      input->default_value = InputDefault::RowIds;
    } else {
      input->dims.push_back(std::make_unique<DimShardingT>());
      input->dims[0]->axes = {2};
      input->permuted_dim = 1;
      input->block_order = {0, 3, 1, 2};
      if (name[0] == 'p')
        input->default_value = InputDefault::Positions;
    }
    made->inputs.push_back(std::move(input));
  }
  auto bounds = checkBounds(*made);
  ASSERT_TRUE(bool(bounds)) << bounds.message();
  auto data = Data::open(*made, tokensOf(folder / "t.bin", false, 0));
  ASSERT_TRUE(bool(data)) << data.message();
  ASSERT_TRUE(bool(data->load(0)));
  const int64_t order[8] = {0, 1, 6, 7, 2, 3, 4, 5};
  auto value = [&](size_t input, uint64_t at) {
    return reinterpret_cast<const int64_t *>(data->batch()[input])[at];
  };
  for (uint64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(value(3, row), int64_t(row));
    for (uint64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(value(0, row * 8 + i), int64_t(row) * 8 + order[i]);
      EXPECT_EQ(value(1, row * 8 + i), int64_t(row) * 8 + order[i] + 1);
      EXPECT_EQ(value(2, row * 8 + i), order[i]);
    }
  }
}

} // namespace

// Files of tokens as users have them: raw, Megatron's, mixed, broken.
#include "PlanBuilder.h"
#include "Tokens.h"
#include "runtime/data/Mixture.h"
#include "runtime/data/TokenCheck.h"

#include <filesystem>
#include <map>
#include <set>
#include <sys/stat.h>

using namespace llmc;
using namespace llmc::test;
using runtime::BadTokens;
using runtime::Mixture;
using runtime::TokenCheck;
using runtime::TokenFile;
using runtime::TokenFormat;
using support::ElementType;

namespace {

std::string refusal(const std::string &path, TokenFormat format = {4, 100, {}}) {
  auto file = TokenFile::open(path, format);
  return file ? "" : file.message();
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(TokenFile, WhatIsNoFileIsRefused) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(has(refusal(folder / "pipe"), "is a pipe; rows are read in any order"));
  EXPECT_TRUE(has(refusal(folder.path), "is a folder; name a file in it"));
  EXPECT_TRUE(has(refusal("/dev/zero"), "is a device"));
  EXPECT_TRUE(has(refusal(folder / "none"), "cannot open"));
}

TEST(TokenFile, OtherKindsOfFilesAreNamed) {
  TemporaryFolder folder;
  auto why = [&](const std::string &bytes, TokenFormat format = {4, 100, {}}) {
    writeBytes(folder / "t.bin", bytes);
    return refusal(folder / "t.bin", format);
  };
  std::string wide = raw<uint32_t>(counting(100));
  EXPECT_TRUE(has(why(wide), "looks like u32 tokens")) << why(wide);
  EXPECT_TRUE(has(why(wide), "--data-dtype u32"));
  EXPECT_EQ(why(wide, {4, 100, ElementType::U32}), "");
  EXPECT_EQ(why(wide, {4, 100, ElementType::U16}), "") << "the user's word counts";
  EXPECT_EQ(why(raw<uint16_t>(counting(100))), "");
  EXPECT_EQ(why(std::string(400, '\0')), "") << "zeros say nothing";
  EXPECT_EQ(why(raw<uint32_t>(counting(20))), "") << "nor do a few tokens";
  std::string text;
  while (text.size() < 500)
    text += "To be, or not to be.\n";
  EXPECT_TRUE(has(why(text.substr(0, 500), {4, 50257, {}}), "looks like text"));
  writeNpy(folder / "t.bin", {100}, counting(100));
  EXPECT_TRUE(has(refusal(folder / "t.bin"), "is a .npy file"));
}

TEST(TokenFile, BadTokensAreCountedAndTheFirstNamed) {
  TemporaryFolder folder;
  std::vector<int64_t> values = counting(401);
  for (int64_t at : {9, 200, 201, 399, 400})
    values[at] = 100 + at;
  for (auto type : {ElementType::U16, ElementType::U32}) {
    writeBytes(folder / "t.bin", type == ElementType::U16 ? raw<uint16_t>(values) : raw<uint32_t>(values));
    auto file = TokenFile::open(folder / "t.bin", {4, 100, type});
    ASSERT_TRUE(bool(file));
    BadTokens bad;
    ASSERT_TRUE(bool(file->check(0, file->used(), bad)));
    EXPECT_EQ(bad.count, 5u);
    std::string why = file->errorOf(bad).message();
    EXPECT_TRUE(has(why, "t.bin': 5 tokens are outside of the vocabulary of 100: token 109 at row 2, "
                         "position 1; token 300 at row 50, position 0; token 301 at row 50, "
                         "position 1; ...")) << why;
    BadTokens last;
    ASSERT_TRUE(bool(file->check(400, 1, last)));
    EXPECT_EQ(last.first[0].row, 99u); // the label of its last position
    EXPECT_EQ(last.first[0].position, 4u);
    std::vector<int64_t> row;
    EXPECT_TRUE(bool(file->read(0, row)));
    EXPECT_FALSE(bool(file->read(2, row)));
  }
  // A u16 file that is read as u32.
  writeBytes(folder / "u16.bin", raw<uint16_t>(counting(402, 1000)));
  auto file = TokenFile::open(folder / "u16.bin", {4, 70000, {}});
  ASSERT_TRUE(bool(file));
  BadTokens bad;
  ASSERT_TRUE(bool(file->check(0, file->used(), bad)));
  EXPECT_TRUE(has(file->errorOf(bad).message(), "give --data-dtype u16"));
}

TEST(TokenFile, AFileThatShrinksIsAnError) {
  TemporaryFolder folder;
  writeBytes(folder / "t.bin", raw<uint16_t>(counting(40001)));
  auto file = TokenFile::open(folder / "t.bin", {4, 100, {}});
  ASSERT_TRUE(bool(file));
  std::filesystem::resize_file(folder / "t.bin", 100);
  std::vector<int64_t> row;
  EXPECT_TRUE(bool(file->read(3, row)));
  auto status = file->read(9000, row);
  ASSERT_FALSE(bool(status));
  EXPECT_TRUE(has(status.message(), "ends at byte")) << status.message();
  BadTokens bad;
  EXPECT_FALSE(bool(file->check(0, file->used(), bad)));
}

// Two documents of 30 and 17 tokens, the first in two sequences.
std::string megatronIndex(uint8_t code, uint64_t width, int64_t gap = 0, uint64_t version = 1,
                          int64_t begin = 0) {
  std::string idx("MMIDIDX\0\0", 9);
  auto put = [&](auto value) { idx.append(reinterpret_cast<const char *>(&value), sizeof value); };
  put(version);
  put(code);
  put(uint64_t(3));
  put(uint64_t(3));
  for (int32_t size : {10, 20, 17})
    put(size);
  for (int64_t place : {0, 10, 30})
    put(begin + place * int64_t(width) + (place == 30 ? gap : 0));
  for (int64_t first : {0, 2, 3})
    put(first);
  return idx;
}

TEST(TokenFile, MegatronsPairs) {
  TemporaryFolder folder;
  std::vector<int64_t> values = counting(47);
  auto expectRows = [&](const char *what) {
    for (const char *name : {"c", "c.bin", "c.idx"}) {
      auto file = TokenFile::open(folder / name, {4, 100, {}});
      ASSERT_TRUE(bool(file)) << what << ": " << file.message();
      EXPECT_EQ(file->rows(), 11u);
      EXPECT_TRUE(has(file->note(), "in 2 documents")) << file->note();
      std::vector<int64_t> row;
      ASSERT_TRUE(bool(file->read(7, row)));
      EXPECT_EQ(row, (std::vector<int64_t>{28, 29, 30, 31, 32})) << "over the end of a document";
      EXPECT_EQ(runtime::tokenFilesOf(folder / name),
                (std::vector<std::string>{folder / "c.bin", folder / "c.idx"}));
    }
  };
  writeBytes(folder / "c.idx", megatronIndex(8, 2));
  writeBytes(folder / "c.bin", raw<uint16_t>(values));
  expectRows("u16");
  writeBytes(folder / "c.idx", megatronIndex(4, 4));
  writeBytes(folder / "c.bin", raw<int32_t>(values));
  expectRows("i32");
  EXPECT_TRUE(has(refusal(folder / "c", {4, 100, ElementType::U16}), "says that the tokens are i32"));

  writeBytes(folder / "c.bin", raw<int32_t>(values) + "more");
  EXPECT_TRUE(has(refusal(folder / "c"), "has 192 bytes, its index wants 188"));
  writeBytes(folder / "alone.bin", raw<int32_t>(values));
  EXPECT_TRUE(has(refusal(folder / "alone"), "alone.idx"));

  values[45] = -1;
  writeBytes(folder / "c.bin", raw<int32_t>(values));
  auto file = TokenFile::open(folder / "c", {4, 100, {}});
  BadTokens bad;
  ASSERT_TRUE(bool(file->check(0, 47, bad)));
  EXPECT_EQ(bad.count, 1u);

  auto why = [&](const std::string &idx) {
    writeBytes(folder / "c.idx", idx);
    return refusal(folder / "c.idx");
  };
  std::string good = megatronIndex(4, 4);
  EXPECT_TRUE(has(why(megatronIndex(7, 4)), "tokens are integers"));
  EXPECT_TRUE(has(why(megatronIndex(4, 4, 4)), "sequences that follow one another"));
  EXPECT_TRUE(has(why(megatronIndex(4, 4, 0, 2)), "version 2"));
  EXPECT_TRUE(has(why(megatronIndex(5, 8)), "its index wants 376"));
  EXPECT_TRUE(has(why(megatronIndex(5, 8, 0, 1, -188)), "begins at byte -188 of"));
  EXPECT_TRUE(has(why(good + "x"), "has 95 bytes, 3 sequences"));
  EXPECT_TRUE(has(why("MMIDID"), "is not an index"));
  for (size_t size = 9; size < good.size(); ++size)
    EXPECT_NE(why(good.substr(0, size)), "") << size;
  for (size_t at = 9; at < 34; ++at) { // no number may crash the reader
    std::string flipped = good;
    flipped[at] = static_cast<char>(0xff);
    EXPECT_NE(why(flipped), "") << at;
  }
}

TEST(TokenCheck, FindsInTimeOrLater) {
  TemporaryFolder folder;
  std::ostringstream out;
  support::Progress progress(out, false, support::Verbosity::Normal);
  std::vector<int64_t> values = counting(3000001);
  writeBytes(folder / "good.bin", raw<uint16_t>(values));
  values[2900000] = 700;
  writeBytes(folder / "bad.bin", raw<uint16_t>(values));
  auto good = TokenFile::open(folder / "good.bin", {4, 100, {}});
  auto bad = TokenFile::open(folder / "bad.bin", {4, 100, {}});
  ASSERT_TRUE(good && bad);
  TokenCheck fine({&*good}, progress);
  EXPECT_TRUE(bool(fine.wait(60)));
  EXPECT_TRUE(fine.done());
  TokenCheck broken({&*good, &*bad}, progress);
  auto status = broken.wait(60);
  ASSERT_FALSE(bool(status));
  EXPECT_TRUE(has(status.message(), "bad.bin': 1 token is outside"));
  EXPECT_TRUE(has(status.message(), "row 725000, position 0")) << status.message();
  // Nobody waits: the run goes on until it is known.
  TokenCheck late({&*good, &*bad}, progress);
  while (!late.done())
    std::this_thread::yield();
  EXPECT_FALSE(bool(late.poll()));
  std::filesystem::resize_file(folder / "good.bin", 1000);
  TokenCheck shrunk({&*good}, progress);
  EXPECT_TRUE(has(shrunk.wait(60).message(), "ends at byte"));
}

// Each file has its share of every block, to the row; its own rows come once an epoch.
TEST(Mixture, SharesAndEpochs) {
  const std::vector<Mixture::File> files = {{1000, 0.3}, {70000, 0.5}, {7, 0.2}};
  Mixture mixture(files, 3, true);
  constexpr uint64_t kSamples = 3 * Mixture::kBlock;
  std::map<size_t, std::vector<uint64_t>> rows;
  for (uint64_t i = 0; i < kSamples; ++i) {
    Mixture::FileRow at = mixture.at(i);
    ASSERT_LT(at.row, files[at.file].rows);
    rows[at.file].push_back(at.row);
  }
  for (size_t file = 0; file < 3; ++file) {
    EXPECT_NEAR(double(rows[file].size()), kSamples * files[file].weight, 1.0);
    std::map<uint64_t, uint64_t> times;
    for (uint64_t row : rows[file])
      ++times[row];
    uint64_t epochs = rows[file].size() / files[file].rows;
    EXPECT_EQ(times.size(), files[file].rows);
    for (const auto &[row, count] : times) {
      EXPECT_GE(count, epochs) << "file " << file << ", row " << row;
      EXPECT_LE(count, epochs + 1);
    }
  }
  // Mixed well: any thousand samples have about their shares.
  uint64_t first = 0;
  for (uint64_t i = 20000; i < 21000; ++i)
    first += mixture.at(i).file == 0;
  EXPECT_NEAR(double(first), 300, 60);
}

TEST(Mixture, OrderIsAFunctionOfTheSeed) {
  const std::vector<Mixture::File> files = {{50, 1}, {60, 2}};
  Mixture mixture(files, 3, true), other(files, 4, true), again(files, 3, true);
  bool differs = false;
  for (uint64_t i = 5000; i-- > 0;) { // whatever was asked for before
    Mixture::FileRow a = again.at(i), b = mixture.at(i), c = other.at(i);
    EXPECT_TRUE(a.file == b.file && a.row == b.row);
    differs |= a.file != c.file || a.row != c.row;
  }
  EXPECT_TRUE(differs);
  Mixture alone({{10, 5}}, 3, false);
  for (uint64_t i = 0; i < 30; ++i)
    EXPECT_EQ(alone.at(i).row, i % 10);
}

} // namespace

// The command line of a program, and what follows from it.
#include "runtime/train/LearningRate.h"

#include <gtest/gtest.h>

using namespace llmc;
using planfile::Mode;
using runtime::Options;

namespace {

Options parse(const std::vector<std::string> &arguments, support::Problems &problems) {
  problems = {};
  return runtime::parseOptions(arguments, Mode::Train, problems);
}

TEST(Options, AreRead) {
  support::Problems problems;
  Options good = parse({"--data", "t.bin", "--steps=7", "--lr", "1e-3", "--lr-schedule=cosine",
                        "--input", "x=a=b.npy", "--no-shuffle", "--clip", "0", "--seed",
                        "18446744073709551615"}, problems);
  ASSERT_TRUE(problems.messages.empty()) << problems.messages[0];
  EXPECT_EQ(good.steps, 7u);
  EXPECT_EQ(good.lr, 1e-3);
  EXPECT_EQ(good.lrSchedule, runtime::LrSchedule::Cosine);
  EXPECT_EQ(good.inputs.at("x"), "a=b.npy");
  EXPECT_FALSE(good.shuffle);
  EXPECT_EQ(good.seed, ~uint64_t(0));
  EXPECT_EQ(parse({"--data", "1:no-such-file"}, problems).data[0].path, "no-such-file");
}

const std::pair<std::vector<std::string>, const char *> kBad[] = {
    {{"--nothing"}, "unknown option '--nothing'"},
    {{"x"}, "unexpected argument 'x'"},
    {{"-s"}, "unknown option '-s'"},
    {{"--eps", "0"}, "a number above 0, got '0'"},
    {{"--steps"}, "needs a value"},
    {{"--steps", "-1"}, "needs a whole number from 0"},
    {{"--steps", "18446744073709551616"}, "to 18446744073709551615, got '18446744073709551616'"},
    {{"--lr", "fast"}, "needs a number of at least 0, got 'fast'"},
    {{"--lr", "nan"}, "needs a number"},
    {{"--lr", "0x10"}, "needs a number"},
    {{"--lr", "1e-400"}, "too near to 0"},
    {{"--lr", "-1"}, "at least 0, got '-1'"},
    {{"--beta1", "1"}, "at least 0 and below 1, got '1'"},
    {{"--lr-schedule", "lineer"}, "constant, cosine, linear, wsd, got 'lineer'; did you mean 'linear'?"},
    {{"--input", "x"}, "NAME=FILE.npy"},
    {{"--no-shuffle=1"}, "takes no value"},
    {{"--checkpoint", "d"}, "not built yet"},
    {{"--resume=d"}, "not built yet"},
    {{"--procs", "2"}, "not built yet"},
    {{"--trace-steps", "0:2"}, "is not FIRST:LAST"},
    {{"--trace-steps", "3:2"}, "is not FIRST:LAST"},
    {{"--trace-steps", "2:"}, "is not FIRST:LAST"},
    {{"--threads", "0"}, "from 1 to 4096"},
    {{"--stpes", "3"}, "unknown option '--stpes'; did you mean '--steps'?"},
    {{"--steps", "3", "--steps=3"}, "--steps is given twice"},
    {{"-q", "--quiet"}, "--quiet is given twice"},
    {{"-q", "-v"}, "exclude each other"},
    {{"--cpu", "avx51"}, "did you mean 'avx512'?"},
    {{"--data", "d", "--data-dtype", "u8"}, "one of u16, u32, got 'u8'"},
    {{"--data-dtype", "u16"}, "--data-dtype is for --data"},
    {{"--data", "a", "--data", "2:b"}, "WEIGHT:FILE with a weight above 0, not 'a'"},
    {{"--data", "a", "--data", "b"}, "not 'a', 'b'"},
    {{"--data", "1e308:a", "--data", "1e308:b"}, "too large to be added up"},
    {{"--metrics", "-"}, "name /dev/stdout"},
    {{"--metrics", "--steps", "3"}, "--metrics needs a value: FILE"},
    {{"--save", "-q"}, "--save needs a value"},
    {{"--data", "0:a", "--data", "2:b"}, "a weight above 0"},
    {{"--data", "-1:a"}, "the weight of WEIGHT:FILE is above 0, not '-1:a'"},
    {{"--data", "1:a", "--data", "2:b", "--no-shuffle"}, "--no-shuffle is for one --data"},
    {{"--lr-schedule", "cosine", "--lr", "1e-4", "--min-lr", "1e-3"}, "--min-lr 0.001 is above --lr"},
    {{"--min-lr", "1e-5"}, "is for --lr-schedule cosine, linear or wsd"},
    {{"--decay-steps", "5"}, "is for --lr-schedule wsd"},
    {{"--eval-data", "e", "--interleaving", "1"}, "--eval-data and --interleaving exclude each other"},
    {{"--eval-every", "5"}, "--eval-every is for --eval-data"},
    {{"--eval-data", "e", "--eval-every", "0"}, "from 1 to"},
};

TEST(Options, AreRefused) {
  support::Problems problems;
  for (const auto &[arguments, why] : kBad) {
    parse(arguments, problems);
    ASSERT_EQ(problems.messages.size(), 1u) << why;
    EXPECT_NE(problems.messages[0].find(why), std::string::npos) << problems.messages[0];
  }
  parse({"--nothing", "3", "--lr=fast", "--output", "o"}, problems);
  EXPECT_EQ(problems.messages.size(), 3u) << "all at once";
}

TEST(Options, HelpAndVersionAreAskedForAnywhere) {
  support::Problems problems;
  EXPECT_TRUE(parse({"--nothing", "x", "-h"}, problems).help);
  EXPECT_TRUE(parse({"--steps", "--version"}, problems).version);
  EXPECT_TRUE(problems.messages.empty()) << "what is asked for is clear";
}

TEST(Options, LearningRate) {
  Options options;
  options.lr = 1.0;
  options.warmup = 4;
  EXPECT_EQ(runtime::learningRate(options, 0, 100), 0.25);
  EXPECT_EQ(runtime::learningRate(options, 3, 100), 1.0);
  EXPECT_EQ(runtime::learningRate(options, 50, 100), 1.0);
  options.lrSchedule = runtime::LrSchedule::Cosine;
  options.minLr = 0.1;
  EXPECT_EQ(runtime::learningRate(options, 4, 100), 1.0);
  EXPECT_NEAR(runtime::learningRate(options, 52, 100), 0.55, 1e-12);
  EXPECT_NEAR(runtime::learningRate(options, 99, 100), 0.1, 1e-3);
}

TEST(Options, LearningRateThatEndsLinearly) {
  Options options;
  options.lr = 1.0;
  options.minLr = 0.2;
  options.warmup = 10;
  options.lrSchedule = runtime::LrSchedule::Linear;
  auto at = [&](uint64_t step) { return runtime::learningRate(options, step, 110); };
  EXPECT_EQ(at(9), 1.0);
  EXPECT_EQ(at(10), 1.0);
  EXPECT_NEAR(at(60), 0.6, 1e-12);
  EXPECT_NEAR(at(109), 0.2 + 0.8 / 100, 1e-12) << "the step after it would have min-lr";
  EXPECT_EQ(at(110), 0.2);

  options.lrSchedule = runtime::LrSchedule::Wsd;
  EXPECT_EQ(runtime::decaySteps(options, 110), 11u) << "a tenth";
  EXPECT_EQ(runtime::decaySteps(options, 5), 1u);
  options.decaySteps = 20;
  EXPECT_EQ(at(0), 0.1);
  EXPECT_EQ(at(50), 1.0);
  EXPECT_EQ(at(90), 1.0);
  EXPECT_NEAR(at(91), 1.0 - 0.8 / 20, 1e-12);
  EXPECT_NEAR(at(109), 0.2 + 0.8 / 20, 1e-12);
  EXPECT_TRUE(bool(runtime::checkSchedule(options, 30)));
  auto status = runtime::checkSchedule(options, 29);
  ASSERT_FALSE(bool(status));
  EXPECT_EQ(status.message(), "--warmup 10 and --decay-steps 20 are more than the 29 steps of the run");
  options.decaySteps = 0;
  EXPECT_EQ(at(109), 1.0) << "no decay";
}

} // namespace

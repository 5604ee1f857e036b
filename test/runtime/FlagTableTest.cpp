// A table of flags: what its parser takes, every kind of problem, and help.
#include "lib/support/FlagSetters.h"

#include <gtest/gtest.h>

using namespace llmc::support;

namespace {

struct Choices {
  bool loud = true;
  uint64_t steps = 0;
  std::optional<int64_t> seed;
  double rate = 0.5;
  std::string file, oracle, kind;
  int color = 0;
  std::vector<std::string> more;
};

enum Modes : unsigned { kRed = 1, kBlue = 2, kBoth = 3 };

const FlagTable<Choices> &table() {
  auto add = [](Choices &choices, const GivenFlag &given, Problems &) {
    choices.more.push_back(given.value);
  };
  static const FlagTable<Choices> all = {
      {{{"--quiet", kBoth, nullptr, "says nothing", {.brief = "-q", .excludes = {"--loud"}}},
        put(&Choices::loud, false)},
       {{"--loud", kBoth, nullptr, "says all"}, put(&Choices::loud, true)},
       {{"--steps", kBoth, "N", "how many",
         {.standard = "0", .later = {"auto"}, .instead = "count"}},
        whole(&Choices::steps, 1, 9)},
       {{"--seed", kRed, "S", "of draws", {.refusedWith = "--loud", .refusal = "is quiet"}},
        whole([](Choices &choices) -> auto & { return choices.seed; })},
       {{"--seed", kBlue, "S", nullptr, {.hidden = true, .refusal = "is drawn itself"}}},
       {{"--rate", kRed, "X", "a share\nof all", {.needs = {"--steps"}}},
        real(&Choices::rate, {.end = 1, .open = true})}},
      {{{"--output", kRed, "A-LONG-NAME-OF-A-FILE", "where to", {.brief = "-o"}},
        path(&Choices::file)},
       {{"--oracle", kRed, "PYTHON", "who knows", {.environment = "LLMC_TEST_ORACLE"}},
        path(&Choices::oracle)},
       {{"--color", kRed, nullptr, "of it",
         {.standard = "red", .values = {"red", "green"}, .later = {"blue"}}},
        choose(&Choices::color, std::vector{7, 8})},
       {{"--kind", kBoth, "VALUE", nullptr, {.standard = "one", .values = {"one"}}},
        word(&Choices::kind)},
       {{"--more", kBlue, "WORD", "another", {.repeats = true}}, add},
       {{"--secret", kBoth, nullptr, nullptr, {.hidden = true}}}}};
  return all;
}

struct Read {
  Choices choices;
  Arguments arguments;
  Problems problems;
};

Read read(const std::vector<std::string> &words, unsigned mode = kRed) {
  Invocation invocation{mode, "it --help", [](unsigned modes) {
    return text("belongs to ", modes == kRed ? "red" : "blue");
  }};
  Read result;
  result.arguments = parseFlags(table().flags(), words, invocation, result.problems);
  table().set(result.arguments, result.choices, result.problems);
  return result;
}

std::vector<std::string> problemsOf(const std::vector<std::string> &words, unsigned mode = kRed) {
  return read(words, mode).problems.messages;
}

using Messages = std::vector<std::string>;

TEST(FlagTable, SetsWhatIsGiven) {
  Read got = read({"in", "-q", "--steps=7", "--seed", "0", "--rate", "1e-3", "--output", "a=b",
                   "--color=green", "-", "--kind", "one"});
  EXPECT_EQ(got.problems.messages, Messages{});
  EXPECT_EQ(got.arguments.words, (Messages{"in", "-"}));
  EXPECT_FALSE(got.choices.loud);
  EXPECT_EQ(got.choices.steps, 7u);
  EXPECT_EQ(got.choices.seed, 0);
  EXPECT_EQ(got.choices.rate, 1e-3);
  EXPECT_EQ(got.choices.file, "a=b");
  EXPECT_EQ(got.choices.color, 8);
  EXPECT_TRUE(got.arguments.has("--quiet") && got.arguments.isComplete);
  EXPECT_EQ(read({"--more", "a", "--more=b"}, kBlue).choices.more, (Messages{"a", "b"}));
}

TEST(FlagTable, NamesWhatIsWrong) {
  const std::tuple<Messages, const char *, bool> lines[] = {
      {{"--stpes", "3"},
       "unknown option '--stpes'; did you mean '--steps'? it --help lists all", true},
      {{"--nothing"}, "unknown option '--nothing'; it --help lists all", true},
      {{"-x"}, "unknown option '-x'; it --help lists all", true},
      {{"--secre"}, "unknown option '--secre'; it --help lists all", true},
      {{"--more", "a"}, "--more belongs to blue", true},
      {{"--steps", "1", "--steps", "2"}, "--steps is given twice, 1 and 2; give it once", true},
      {{"-q", "--quiet"}, "--quiet is given twice; give it once", true},
      {{"--steps"}, "--steps needs a value: N", true},
      {{"--steps", "--loud"}, "--steps needs a value: N", true},
      {{"--output", "-q"}, "--output needs a value: A-LONG-NAME-OF-A-FILE", true},
      {{"--color"}, "--color needs a value: red|green", true},
      {{"-o", ""}, "-o needs a value: A-LONG-NAME-OF-A-FILE", true},
      {{"--loud=yes"}, "--loud takes no value, got 'yes'", true},
      {{"--steps", "0"}, "--steps needs a whole number from 1 to 9, got '0'", true},
      {{"--steps", "2x"}, "--steps needs a whole number from 1 to 9, got '2x'", true},
      {{"--steps", "auto"}, "--steps auto is not built yet; count", false},
      {{"--steps=1", "--rate", "0"}, "--rate needs a number above 0 and below 1, got '0'", true},
      {{"--steps=1", "--rate", "nan"},
       "--rate needs a number above 0 and below 1, got 'nan'", true},
      {{"--steps=1", "--rate", "1e-999"},
       "--rate: 1e-999 is too large, or too near to 0, for a double", true},
      {{"--rate", "0.5"}, "--rate is for --steps", true},
      {{"-o", "-"},
       "--output: '-' is no file; name /dev/stdout, or ./- for a file of that name", true},
      {{"--color", "gren"},
       "--color is one of red, green, got 'gren'; did you mean 'green'?", true},
      {{"--color", "blue"}, "--color blue is not built yet; use --color red", false},
      {{"--kind", "two"}, "--kind is one, got 'two'", true},
      {{"--loud", "-q"}, "--quiet and --loud exclude each other; leave one out", true},
      {{"--loud", "--seed", "1"}, "--seed is quiet", false},
  };
  for (const auto &[words, message, wrongUsage] : lines) {
    Problems problems = read(words).problems;
    EXPECT_EQ(problems.messages, Messages{message});
    EXPECT_EQ(problems.wrongUsage, wrongUsage) << message;
  }
  EXPECT_EQ(problemsOf({"--seed", "1"}, kBlue), Messages{"--seed is drawn itself"});
}

TEST(FlagTable, NamesAllThatIsWrongAtOnce) {
  EXPECT_EQ(problemsOf({"--nothing", "3", "--steps", "x", "--color", "--loud", "-q"}).size(), 4u);
  EXPECT_FALSE(read({"--nothing", "3"}).arguments.isComplete) << "3 may be its value";
}

TEST(FlagTable, TakesAValueFromTheEnvironment) {
  ::setenv("LLMC_TEST_ORACLE", "python", 1);
  EXPECT_EQ(read({"--oracle"}).choices.oracle, "python");
  EXPECT_EQ(read({"--oracle", "mine"}).choices.oracle, "mine");
  EXPECT_EQ(read({"--oracle", "-q"}).choices.oracle, "python") << "-q is a flag";
  EXPECT_EQ(problemsOf({"--oracle", "-q"}), Messages{});
  ::unsetenv("LLMC_TEST_ORACLE");
  EXPECT_EQ(problemsOf({"--oracle"}),
            Messages{"--oracle needs a value: PYTHON, or the variable LLMC_TEST_ORACLE"});
}

TEST(FlagTable, PrintsHelpOfAMode) {
  EXPECT_EQ(flagsHelp(table().flags(), kRed),
            R"(  -q, --quiet            says nothing
  --loud                 says all
  --steps N              how many  [0]
  --seed S               of draws
  --rate X               a share
                         of all
  -o, --output A-LONG-NAME-OF-A-FILE
                         where to
  --oracle PYTHON        who knows
  --color red|green      of it  [red]

One value so far, others are refused by name:
  --kind one
)");
  EXPECT_EQ(flagsHelp(table().flags(), kBlue).find("--color"), std::string::npos);
}

TEST(FlagTable, ReadsNumbers) {
  EXPECT_EQ(parseWhole("18446744073709551615"), ~uint64_t(0));
  for (const char *wrong : {"18446744073709551616", "-1", "+1", "", " 1", "1 ", "0x1", "1.5"})
    EXPECT_FALSE(parseWhole(wrong)) << wrong;
  EXPECT_EQ(parseReal("-2.5e3"), -2500);
  for (const char *wrong : {"", "nan", "inf", "0x10", "1e", "1,5", "1e999"})
    EXPECT_FALSE(parseReal(wrong)) << wrong;
}

} // namespace

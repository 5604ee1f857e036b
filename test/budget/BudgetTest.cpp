#include "lib/budget/BudgetText.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace llmc::budget;
using Q = Quantity;

namespace {

Question asked(std::initializer_list<std::pair<Q, double>> amounts, const char *gpu = "") {
  Question question;
  for (auto [quantity, amount] : amounts)
    question.of(quantity) = amount;
  question.gpu = gpu;
  return question;
}

Answer answered(const Question &question) {
  std::vector<std::string> errors;
  auto found = answer(question, errors);
  EXPECT_TRUE(found && errors.empty()) << (errors.empty() ? "" : errors[0]);
  return found ? *found : Answer{};
}

std::string refused(const Question &question) {
  std::vector<std::string> errors;
  EXPECT_FALSE(answer(question, errors));
  std::string all;
  for (const std::string &error : errors)
    all += error + "\n";
  return all;
}

const Row &rowOf(const Answer &answer, const std::string &law) {
  for (const Row &row : answer.rows)
    if (row.law == law)
      return row;
  ADD_FAILURE() << "no row of " << law;
  return answer.rows.front();
}

TEST(Budget, FlopsAlone) {
  const Row row = rowOf(answered(asked({{Q::Flops, 1e21}})), "6ND");
  EXPECT_NEAR(row.params, 2.9e9, 0.05e9);
  EXPECT_NEAR(row.tokens, 58e9, 0.5e9);
  EXPECT_FALSE(row.loss);
}

TEST(Budget, ParamsAndTokensAreTakenAsGiven) {
  for (const Row &row : answered(asked({{Q::Params, 70e9}, {Q::Tokens, 2e12}})).rows) {
    EXPECT_EQ(row.params, 70e9);
    EXPECT_EQ(row.tokens, 2e12);
    EXPECT_NEAR(row.flops, 8.4e23, 1e10);
    EXPECT_EQ(row.loss.has_value(), !row.lossSource.empty());
  }
}

TEST(Budget, AcceleratorsAndDays) {
  Question question = asked({{Q::Gpus, 512}, {Q::Days, 90}, {Q::Mfu, 0.4}}, "h100");
  const Row row = rowOf(answered(question), "6ND");
  EXPECT_NEAR(row.flops, 1.575e24, 0.001e24);
  EXPECT_NEAR(row.params, 114.6e9, 0.1e9);
  question.of(Q::Params) = 30e9;
  for (const Row &each : answered(question).rows)
    EXPECT_NEAR(each.tokens, 8.75e12, 0.005e12);
}

TEST(Budget, OneOfParamsAndTokensLeavesTheOtherToTheLaw) {
  Answer byParams = answered(asked({{Q::Params, 10e9}})), byTokens = answered(asked({{Q::Tokens, 205.1e9}}));
  EXPECT_NEAR(rowOf(byParams, "6ND").tokens, 200e9, 1);
  EXPECT_NEAR(rowOf(byParams, "chinchilla-1").tokens, 205.1e9, 2e9);
  EXPECT_NEAR(rowOf(byTokens, "chinchilla-1").params, 10e9, 0.1e9);
}

TEST(Budget, DollarsBuyFlops) {
  const Row row = rowOf(answered(asked({{Q::Dollars, 2e6}, {Q::Price, 2}, {Q::Mfu, 0.4}}, "h100")), "6ND");
  EXPECT_NEAR(row.flops, 1e6 * 3600 * 989e12 * 0.4, 1e15);
  EXPECT_EQ(row.quantities[Q::GpuHours], 1e6);
  EXPECT_FALSE(row.quantities[Q::Days]);
}

TEST(Budget, InferenceMakesModelsSmaller) {
  // The budget of a Chinchilla-optimal model of 30 B, by the fit of Sardana et al.
  Question question = asked({{Q::Flops, 6 * 30e9 * 1.5557e12}, {Q::Gpus, 512}, {Q::Mfu, 0.4}}, "h100");
  question.inferenceTokens = 1e13;
  Answer answer = answered(question);
  const Row row = rowOf(answer, "sardana");
  EXPECT_NEAR(row.params, 13.6e9, 0.05e9);
  EXPECT_NEAR(*row.saved, 0.28, 0.005);
  EXPECT_GT(*row.quantities[Q::Days], *rowOf(answer, "6ND").quantities[Q::Days]);
}

TEST(Budget, FailuresMakeItLonger) {
  Question question = asked({{Q::Gpus, 512}, {Q::Days, 90}, {Q::Mfu, 0.4}}, "h100");
  question.mtbfHours = 24;
  question.checkpointSeconds = 300;
  Answer answer = answered(question);
  EXPECT_NEAR(answer.cadence->daly, 7001.389, 1e-3);
  EXPECT_NEAR(*answer.rows[0].wallDays, 90 / answer.cadence->goodput, 1e-9);
  Question alone;
  alone.mtbfHours = 24, alone.checkpointSeconds = 300;
  EXPECT_TRUE(answered(alone).rows.empty());
}

TEST(Budget, WhatDoesNotDetermineATraining) {
  EXPECT_NE(refused({}).find("needs --flops; or --params or --tokens"), std::string::npos);
  EXPECT_NE(refused(asked({{Q::Gpus, 512}, {Q::Days, 90}}, "h100")).find("here --mfu is missing"), std::string::npos);
  EXPECT_NE(refused(asked({{Q::Dollars, 1e6}})).find("--mfu and --dollars-per-gpu-hour are missing"), std::string::npos);
  EXPECT_NE(refused(asked({{Q::Flops, 1e21}}, "h1000")).find("h100"), std::string::npos);
  EXPECT_NE(refused(asked({{Q::Flops, 1e21}}, "h100")).find("--gpu alone"), std::string::npos);
  EXPECT_NE(refused(asked({{Q::Flops, 1e26}, {Q::Gpus, 8}, {Q::Days, 1}}, "h100")).find("none is above 1"),
            std::string::npos);
  EXPECT_NE(refused(asked({{Q::Flops, 1e9}, {Q::Tokens, 1e24}})).find("fewer than one of params"), std::string::npos);
}

// Whatever is asked, there is an answer of finite numbers or an error.
TEST(Budget, DrawnQuestions) {
  std::mt19937 random(1);
  auto draw = [&](double least, double most) {
    return least * std::pow(most / least, double(random() % 1001) / 1000);
  };
  const std::pair<double, double> bounds[] = {{1e9, 1e40}, {1, 1e24}, {1, 1e24}, {1e-9, 1}, {1, 2e9},
                                              {1e-6, 1e9}, {0, 0},    {1e-6, 1e9}, {1e-3, 1e18}};
  int answers = 0;
  for (int i = 0; i < 20000; ++i) {
    Question question;
    for (int q = 0; q < int(Q::Peak); ++q)
      if (q != int(Q::GpuHours) && random() % 3 == 0)
        question.given[q] = draw(bounds[q].first, bounds[q].second);
    if (random() % 2)
      question.gpu = "a100-80g";
    if (random() % 2)
      question.inferenceTokens = draw(1, 1e24);
    if (random() % 2)
      question.mtbfHours = draw(1e-6, 1e9), question.checkpointSeconds = draw(1e-6, 1e9),
      question.restartSeconds = draw(1e-3, 1e9);
    std::vector<std::string> errors;
    auto found = answer(question, errors);
    ASSERT_EQ(found.has_value(), errors.empty());
    if (!found)
      continue;
    ++answers;
    answerText(*found);
    for (const auto &row : answerJson(*found)["results"])
      for (const auto &value : row)
        if (value.is_number())
          ASSERT_TRUE(std::isfinite(value.get<double>())) << row.dump();
  }
  EXPECT_GT(answers, 1000);
}

} // namespace

#include "lib/budget/Quantities.h"

#include <gtest/gtest.h>

using namespace llmc::budget;
using Q = Quantity;

namespace {

Quantities given(std::initializer_list<std::pair<Q, double>> amounts) {
  Quantities quantities;
  for (auto [quantity, amount] : amounts)
    quantities.give(quantity, amount);
  return quantities;
}

TEST(Quantities, EachFollowsFromTheOthers) {
  const std::pair<Q, double> run[] = {{Q::Mfu, 0.4}, {Q::Gpus, 512}, {Q::Days, 90}, {Q::Params, 30e9}};
  double hours = 512 * 90 * 24, flops = hours * 3600 * 989e12 * 0.4;
  for (auto [open, amount] : run) {
    Quantities quantities = given({{Q::Peak, 989e12}, {Q::Tokens, flops / 6 / 30e9}, {Q::Price, 2}});
    for (auto [quantity, other] : run)
      if (quantity != open)
        quantities.give(quantity, other);
    EXPECT_TRUE(quantities.resolve().empty());
    EXPECT_NEAR(*quantities[open] / amount, 1, 1e-12) << flagOf(open);
    EXPECT_NEAR(*quantities[Q::Flops] / flops, 1, 1e-12);
    EXPECT_NEAR(*quantities[Q::Dollars] / (2 * hours), 1, 1e-12);
    EXPECT_TRUE(quantities.unused().empty());
  }
}

TEST(Quantities, AnAcceleratorIsNeverLookedFor) {
  Quantities quantities = given({{Q::Flops, 1e21}, {Q::Gpus, 8}, {Q::Days, 3}, {Q::Mfu, 0.4}});
  EXPECT_TRUE(quantities.resolve().empty());
  EXPECT_FALSE(quantities[Q::Peak]);
  EXPECT_EQ(quantities[Q::GpuHours], 576);
  ASSERT_EQ(quantities.unused().size(), 1u);
  EXPECT_NE(quantities.unused()[0].find("--mfu alone says nothing about time: give --gpu too"), std::string::npos);
}

TEST(Quantities, ContradictionsShowBothNumbers) {
  Quantities quantities = given({{Q::Flops, 1e21}, {Q::Params, 70e9}, {Q::Tokens, 2e12}});
  std::vector<std::string> errors = quantities.resolve();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0], "--flops gives 1e+21 FLOPs, but --params and --tokens give 8.4e+23 (FLOPs = 6 x params x tokens): "
                       "leave one of these flags out");
  EXPECT_TRUE(given({{Q::Flops, 8.45e23}, {Q::Params, 70e9}, {Q::Tokens, 2e12}}).resolve().empty()); // rounded
}

TEST(Quantities, ContradictionsOverSeveralRelations) {
  Quantities quantities = given({{Q::Peak, 989e12}, {Q::Mfu, 0.4}, {Q::Dollars, 1e6}, {Q::Price, 2}, {Q::Gpus, 512},
                                 {Q::Days, 90}, {Q::Params, 1e9}, {Q::Tokens, 1e9}});
  std::vector<std::string> errors = quantities.resolve();
  ASSERT_EQ(errors.size(), 2u);
  for (const std::string &error : errors)
    EXPECT_NE(error.find("leave one of these flags out"), std::string::npos) << error;
}

} // namespace

#include "lib/budget/Amount.h"

#include <gtest/gtest.h>

using namespace llmc::budget;

TEST(Amount, Reads) {
  EXPECT_EQ(parseAmount("70B"), 70e9);
  EXPECT_EQ(parseAmount("2T"), 2e12);
  EXPECT_EQ(parseAmount("1.5g"), 1.5e9);
  EXPECT_EQ(parseAmount("125M"), 125e6);
  EXPECT_EQ(parseAmount("16k"), 16e3);
  EXPECT_EQ(parseAmount("1e21"), 1e21);
  EXPECT_EQ(parseAmount("3e2K"), 3e5);
  EXPECT_EQ(parseAmount("-1B"), -1e9);
}

TEST(Amount, Refuses) {
  for (const char *text : {"", "B", "70BB", "70 B", "7x", "nan", "inf", "infB", "1e400", "1e308T", "0x10", "+5", "1,5"})
    EXPECT_FALSE(parseAmount(text)) << text;
}

TEST(Amount, Writes) {
  EXPECT_EQ(amountText(1.1456e11), "114.6B");
  EXPECT_EQ(amountText(8.75e12), "8.75T");
  EXPECT_EQ(amountText(250), "250");
  EXPECT_EQ(amountText(0.25), "0.25");
  EXPECT_EQ(amountText(5.76e23), "5.76e+23");
  EXPECT_EQ(amountText(999.99e9), "1000B");
}

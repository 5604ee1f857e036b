// Reads and writes amounts of parameters, tokens, FLOPs and money: 70B, 2T, 1e21. Test: test/budget/AmountTest.cpp.
#ifndef LLMC_LIB_BUDGET_AMOUNT_H
#define LLMC_LIB_BUDGET_AMOUNT_H

#include <optional>
#include <string>
#include <string_view>

namespace llmc::budget {

// Reads a finite decimal number, perhaps followed by K, M, B or G, or T (1e3, 1e6, 1e9, 1e12); none if the text is
// anything else.
std::optional<double> parseAmount(std::string_view text);

// Returns the amount with four digits and such a letter: 114.6B; without one from 1e15 and below 1.
std::string amountText(double amount);

} // namespace llmc::budget

#endif // LLMC_LIB_BUDGET_AMOUNT_H

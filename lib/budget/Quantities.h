// Holds the quantities of a training, and finds those that follow from others: FLOPs from parameters and tokens, days
// from FLOPs and accelerators. Test: test/budget/QuantitiesTest.cpp.
#ifndef LLMC_LIB_BUDGET_QUANTITIES_H
#define LLMC_LIB_BUDGET_QUANTITIES_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc::budget {

// Names the quantities. GpuHours has no flag; Peak is FLOP/s of an accelerator, and its flag is --gpu.
enum class Quantity : uint8_t { Flops, Params, Tokens, Mfu, Gpus, Days, GpuHours, Price, Dollars, Peak };
inline constexpr int kQuantities = 10;

// Returns the flag that gives the quantity; empty if there is none.
const char *flagOf(Quantity quantity);

class Quantities {
public:
  // Returns the amount if it is known.
  std::optional<double> operator[](Quantity quantity) const { return amounts_[int(quantity)]; }
  // Sets what a flag gives.
  void give(Quantity quantity, double amount);
  // Sets what a law chooses, which no flag gives.
  void choose(Quantity quantity, double amount) { amounts_[int(quantity)] = amount; }
  bool isGiven(Quantity quantity) const { return origins_[int(quantity)] & bit(quantity); }
  void forget(Quantity quantity) { amounts_[int(quantity)] = std::nullopt, origins_[int(quantity)] = 0; }

  // Finds all that follows. Returns an error for each relation whose two sides follow from flags and differ by more than
  // 1 %, with both numbers.
  std::vector<std::string> resolve();
  // Returns an error for each flag of time and money from which nothing follows, with those that it needs.
  std::vector<std::string> unused() const;

private:
  static unsigned bit(Quantity quantity) { return 1u << int(quantity); }

  std::array<std::optional<double>, kQuantities> amounts_;
  std::array<unsigned, kQuantities> origins_{}; // the bits of the flags that an amount follows from
};

} // namespace llmc::budget

#endif // LLMC_LIB_BUDGET_QUANTITIES_H

// States for how many rows of a token a rank of experts has room: the one rule by which ExchangeRows gives room and the
// pipeline knows whether rows may lack it. Tests: test/numerics/experts.py ("room for all").
#ifndef LLMC_PASSES_TRAIN_EXPERTROOM_H
#define LLMC_PASSES_TRAIN_EXPERTROOM_H

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace llmc::train {

// Counts by token of each of the ranks that exchange rows: the slots that a rank has, and the rows that could arrive.
struct ExpertRoom {
  int64_t slots, most;

  // Takes the experts that a token chooses, those of the mixture, and the ranks that share them out. Slots are whole,
  // so that a budget below that of `most` may have room for all.
  ExpertRoom(int64_t choices, int64_t experts, int64_t ranks, double budget)
      : most(ranks * std::min(choices, experts / ranks)) {
    auto wanted = static_cast<int64_t>(std::min(std::ceil(budget * double(choices)), double(most)));
    slots = std::max(choices, wanted);
  }
  bool mayLack() const { return slots < most; }
};

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_EXPERTROOM_H

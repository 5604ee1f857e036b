#include "runtime/data/Mixture.h"

#include "runtime/states/Random.h"

#include <cmath>

using namespace llmc::runtime;

namespace {

// Returns a key for what is drawn: `seed` for the rows of file 0, another one for each other
// `what`.
uint64_t keyOf(uint64_t seed, uint32_t what) {
  if (what == 0)
    return seed;
  auto drawn = philox({what, 0, 0, 0x6d697865}, {uint32_t(seed), uint32_t(seed >> 32)});
  return uint64_t(drawn[0]) << 32 | drawn[1];
}

} // namespace

Mixture::Mixture(std::vector<File> files, uint64_t seed, bool shuffle)
    : files_(std::move(files)), seed_(seed), shuffle_(shuffle) {
  double sum = 0, until = 0;
  for (const File &file : files_)
    sum += file.weight;
  for (const File &file : files_)
    shares_.push_back((until += file.weight) / sum);
  if (!shares_.empty())
    shares_.back() = 1; // exactly, despite rounding
}

uint64_t Mixture::given(size_t file, uint64_t block) const {
  if (file + 1 == files_.size())
    return block * kBlock;
  return static_cast<uint64_t>(std::floor(double(block * kBlock) * shares_[file]));
}

Mixture::FileRow Mixture::at(uint64_t sample) const {
  if (files_.size() == 1)
    return rowOf(0, sample);
  uint64_t block = sample / kBlock;
  uint64_t place = permute(keyOf(seed_, 1u << 31), block, kBlock, sample % kBlock);
  // Finds the file: the block, before its permutation, is the concatenation of the files'
  // shares.
  uint64_t begin = 0, before = 0;
  for (size_t file = 0;; ++file) {
    uint64_t end = given(file, block + 1) - given(file, block);
    if (place < end || file + 1 == files_.size())
      return rowOf(file, given(file, block) - before + place - begin);
    begin = end;
    before = given(file, block);
  }
}

Mixture::FileRow Mixture::rowOf(size_t file, uint64_t sample) const {
  uint64_t rows = files_[file].rows, row = sample % rows;
  if (shuffle_)
    row = permute(keyOf(seed_, static_cast<uint32_t>(file)), sample / rows, rows, row);
  return {file, row};
}

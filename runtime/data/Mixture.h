// Which row of which file is the n-th of a training: a function of the seed and of
// n alone, whatever the mesh and whichever rows were asked for before.
#ifndef LLMC_RUNTIME_DATA_MIXTURE_H
#define LLMC_RUNTIME_DATA_MIXTURE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmc::runtime {

class Mixture {
public:
  // Samples are cut into blocks of this many. Of each block every file has its share,
  // to the row, in a drawn order: after n blocks file k has given
  // floor(n B c_k) - floor(n B c_(k-1)) rows, c being the sums of shares.
  static constexpr uint64_t kBlock = 65536;

  struct File {
    uint64_t rows = 0;
    double weight = 1; // of all weights' sum; at least 1 / kBlock of it
  };
  struct Place {
    size_t file = 0;
    uint64_t row = 0;
  };

  Mixture() = default;
  // One file alone is taken in order if not `shuffle`.
  Mixture(std::vector<File> files, uint64_t seed, bool shuffle);
  Place at(uint64_t sample) const;

private:
  Place rowOf(size_t file, uint64_t sample) const;
  // Rows that files 0 to `file` have given before `block`.
  uint64_t given(size_t file, uint64_t block) const;

  std::vector<File> files_;
  std::vector<double> shares_; // sums of them
  uint64_t seed_ = 0;
  bool shuffle_ = true;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_DATA_MIXTURE_H

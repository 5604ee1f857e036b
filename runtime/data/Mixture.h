// Selects the n-th row of a training from several files: a function of the seed and of n
// alone, independent of the mesh and of the rows asked for before. The test is
// test/runtime/TokenFileTest.cpp.
#ifndef LLMC_RUNTIME_DATA_MIXTURE_H
#define LLMC_RUNTIME_DATA_MIXTURE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmc::runtime {

// Maps sample numbers to rows of files.
class Mixture {
public:
  // Counts the samples of a block. Every block holds an exact share of each file, in drawn
  // order: after n blocks of B samples file k has given floor(n B c_k) - floor(n B c_(k-1))
  // rows, where c are the cumulative shares.
  static constexpr uint64_t kBlock = 65536;

  struct File {
    uint64_t rows = 0;
    double weight = 1; // relative to the sum; at least 1 / kBlock of it
  };
  struct FileRow {
    size_t file = 0;
    uint64_t row = 0;
  };

  Mixture() = default;
  // Mixes `files`; a single file is read in order unless `shuffle` is set.
  Mixture(std::vector<File> files, uint64_t seed, bool shuffle);
  // Returns the row of sample number `sample`; epochs of a file follow one another, each
  // permuted if `shuffle` is set.
  FileRow at(uint64_t sample) const;

private:
  FileRow rowOf(size_t file, uint64_t sample) const;
  // Returns the rows that files 0 to `file` have given before `block`.
  uint64_t given(size_t file, uint64_t block) const;

  std::vector<File> files_;
  std::vector<double> shares_; // cumulative, the last is 1
  uint64_t seed_ = 0;
  bool shuffle_ = true;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_DATA_MIXTURE_H

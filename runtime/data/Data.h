// Loads the rows that a step trains on. Which row a position of the global batch holds is a
// function of the seed, the step and that position alone. The test is test/runtime/DataTest.cpp.
#ifndef LLMC_RUNTIME_DATA_DATA_H
#define LLMC_RUNTIME_DATA_DATA_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/support/File.h"
#include "lib/support/Npy.h"
#include "lib/support/Progress.h"
#include "runtime/data/Mixture.h"
#include "runtime/data/TokenCheck.h"
#include "runtime/data/TokenFile.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmc::runtime {

// Holds the path of a file of tokens and its weight among several.
struct DataFile {
  std::string path;
  double weight = 1;
};

// Selects the files and their order.
struct DataOptions {
  std::vector<DataFile> tokens;              // --data
  std::map<std::string, std::string> arrays; // --input NAME=FILE
  bool shuffle = true;
  uint64_t seed = 0; // of the order of rows, and of dropout
  std::optional<support::ElementType> tokenType; // --data-dtype
  bool drops = true; // false: dropout keeps everything
};

// Limits the seconds of a check of all tokens before the first step; it then continues during the
// run.
inline constexpr double kCheckSeconds = 2;

// Owns the open files and the buffers of one global batch.
class Data {
public:
  // Opens the files and compares them with the inputs of `program`, which must outlive this
  // object. Inputs are "input_ids", "labels" and any others of the plan; an input without data
  // takes the plan's default. Fails if a required input has no data or a file does not fit.
  static support::Result<Data> open(const planfile::ProgramT &program,
                                    const DataOptions &options);

  // Checks all tokens in the background and waits for at most `seconds`; fails if a bad one was
  // found by then. load() reports those that are found later.
  support::Status beginCheck(support::Progress &progress, double seconds);
  bool checked() const { return !check_ || check_->done(); }

  // Loads the global batch of `step` (from 0). Fails at a token outside of the vocabulary, with
  // its row and position.
  support::Status load(uint64_t step);

  // Returns the batch for Executor::runStep(), by input; valid until the next load().
  const std::vector<const std::byte *> &batch() const { return pointers_; }

  // Returns the rows of an epoch: of all token files, or of the shortest array if that has fewer.
  uint64_t rows() const;
  // Returns the number of whole steps of an epoch.
  uint64_t stepsOfEpoch() const { return rows() / program_.global_batch; }

  // Returns text for the start-up; lines after the first are indented.
  const std::string &note() const { return note_; }

private:
  Data(const planfile::ProgramT &program, const DataOptions &options)
      : program_(program), seed_(options.seed), shuffle_(options.shuffle), drops_(options.drops) {}
  support::Status openTokens(const DataOptions &options);
  support::Status mix(const std::vector<DataFile> &files);
  support::Result<support::NpyFile> openArray(size_t input, const std::string &path) const;
  support::Status checkRowsAgree() const;
  support::Status openArrays(const std::map<std::string, std::string> &arrays);
  support::Status checkComplete() const;
  support::Status loadTokens(Mixture::FileRow from, uint64_t place);
  support::Status loadArray(size_t input, uint64_t row, uint64_t place);
  support::Status store(size_t input, uint64_t row, uint64_t place, uint64_t position,
                        int64_t token);
  void fillDefault(size_t input);
  void fillDropoutKeys(size_t input, uint64_t step);
  uint64_t elementsOfRow(size_t input) const;
  // Returns the index in the batch of element `position` of the row at position `place`.
  uint64_t target(size_t input, uint64_t place, uint64_t position) const {
    return place * elementsOfRow(input) +
           (permutation_[input].empty() ? position : permutation_[input][position]);
  }
  int find(std::string_view name) const; // index of the input; -1: none

  const planfile::ProgramT &program_;
  uint64_t seed_;
  bool shuffle_, drops_;
  // Holds the header of an array and the file of its rows, which are read and not mapped, as the
  // file may shrink.
  struct Array {
    support::NpyFile header;
    support::ReadableFile file;
  };
  std::vector<std::unique_ptr<TokenFile>> tokens_;
  Mixture mixture_; // of `tokens_`
  int idsInput_ = -1, labelsInput_ = -1;
  std::vector<std::unique_ptr<Array>> arrays_;  // by input; null: none
  std::vector<int64_t> row_;                    // the last row of tokens
  std::vector<std::byte> rowBytes_;             // the last row of an array
  std::vector<std::vector<std::byte>> buffers_;           // by input: a global batch
  std::vector<std::vector<int64_t>> shapes_;              // by input: of a whole micro-batch
  std::vector<std::vector<uint64_t>> permutation_;             // by input: permutedIndices()
  std::vector<const std::byte *> pointers_;
  std::string note_;
  std::unique_ptr<TokenCheck> check_; // its thread ends before the files close
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_DATA_DATA_H

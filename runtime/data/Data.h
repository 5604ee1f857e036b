// The rows that a step trains on. Which row stands where is a function of the
// seed, the step and the global row alone.
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

// A file of tokens and its weight among several.
struct DataFile {
  std::string path;
  double weight = 1;
};

struct DataOptions {
  std::vector<DataFile> tokens;              // --data
  std::map<std::string, std::string> arrays; // --input NAME=FILE
  bool shuffle = true;
  uint64_t seed = 0;
  std::optional<support::ElementType> tokenType; // --data-dtype
};

// A check of all tokens that takes longer goes on while the first steps run.
inline constexpr double kCheckSeconds = 2;

class Data {
public:
  // Opens the files and compares them with the inputs of `program`, which must
  // outlive this object. Inputs are "input_ids", "labels" and whatever else the
  // plan has; who is not given takes the plan's default.
  static support::Result<Data> open(const planfile::ProgramT &program,
                                    const DataOptions &options);

  // Looks at all tokens in the background; an error if `seconds` suffice to find a bad
  // one. load() then tells of those that are found later.
  support::Status beginCheck(support::Progress &progress, double seconds);
  bool checked() const { return !check_ || check_->done(); }

  // Prepares the global batch of `step` (from 0). A token outside of the
  // vocabulary is an error that names row and position.
  support::Status load(uint64_t step);

  // For Executor::runStep: valid until the next load().
  const std::vector<const std::byte *> &batch() const { return pointers_; }

  // Rows that one pass has: of all token files, of the shortest array.
  uint64_t rows() const;
  // Steps that go once over them.
  uint64_t stepsOfEpoch() const { return rows() / program_.global_batch; }

  // For the start-up, lines after the first indented.
  const std::string &note() const { return note_; }

private:
  Data(const planfile::ProgramT &program, const DataOptions &options)
      : program_(program), seed_(options.seed), shuffle_(options.shuffle) {}
  support::Status openTokens(const DataOptions &options);
  support::Status mix(const std::vector<DataFile> &files);
  support::Result<support::NpyFile> openArray(size_t input, const std::string &path) const;
  support::Status checkRowsAgree() const;
  support::Status openArrays(const std::map<std::string, std::string> &arrays);
  support::Status checkComplete() const;
  support::Status loadTokens(Mixture::Place from, uint64_t place);
  support::Status loadArray(size_t input, uint64_t row, uint64_t place);
  support::Status store(size_t input, uint64_t row, uint64_t place, uint64_t position,
                        int64_t token);
  void fillDefault(size_t input);
  uint64_t elementsOfRow(size_t input) const;
  // Where element `position` of a given row goes in the row at `place` of the batch.
  uint64_t target(size_t input, uint64_t place, uint64_t position) const {
    return place * elementsOfRow(input) +
           (places_[input].empty() ? position : places_[input][position]);
  }
  int find(std::string_view name) const; // -1: no such input

  const planfile::ProgramT &program_;
  uint64_t seed_;
  bool shuffle_;
  // An array, and where its rows come from: read, not mapped, as the file may shrink.
  struct Array {
    support::NpyFile header;
    support::ReadableFile file;
  };
  std::vector<std::unique_ptr<TokenFile>> tokens_;
  Mixture mixture_; // of them
  int idsInput_ = -1, labelsInput_ = -1;
  std::vector<std::unique_ptr<Array>> arrays_;  // by input; null: none
  std::vector<int64_t> row_;                    // the last row of tokens
  std::vector<std::byte> rowBytes_;             // the last row of an array
  std::vector<std::vector<std::byte>> buffers_;           // by input: a global batch
  std::vector<std::vector<int64_t>> shapes_;              // by input: a micro-batch, not cut
  std::vector<std::vector<uint64_t>> places_;             // by input: as permutedPlaces() says
  std::vector<const std::byte *> pointers_;
  std::string note_;
  std::unique_ptr<TokenCheck> check_; // its thread ends before the files close
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_DATA_DATA_H

// The rows that a step trains on. Which row stands where is a function of the
// seed, the step and the global row alone.
#ifndef LLMC_RUNTIME_DATA_H
#define LLMC_RUNTIME_DATA_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/support/File.h"
#include "lib/support/Npy.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmc::runtime {

struct DataOptions {
  std::string tokens;                        // --data; empty: none
  std::map<std::string, std::string> arrays; // --input NAME=FILE
  bool shuffle = true;
  uint64_t seed = 0;
};

class Data {
public:
  // Opens the files and compares them with the inputs of `program`, which must
  // outlive this object. Inputs are "input_ids", "labels" and whatever else the
  // plan has; who is not given takes the plan's default.
  static support::Result<Data> open(const planfile::ProgramT &program,
                                    const DataOptions &options);

  // Prepares the global batch of `step` (from 0). A token outside of the
  // vocabulary is an error that names row and position.
  support::Status load(uint64_t step);

  // For Executor::runStep: valid until the next load().
  const std::vector<const std::byte *> &batch() const { return pointers_; }

  // Steps that go once over the rows: over the shortest input's, if several.
  uint64_t stepsOfEpoch() const;

  // One line for the start-up.
  const std::string &note() const { return note_; }

private:
  Data(const planfile::ProgramT &program, const DataOptions &options)
      : program_(program), seed_(options.seed), shuffle_(options.shuffle) {}
  support::Status openTokens(const std::string &path);
  support::Status openArrays(const std::map<std::string, std::string> &arrays);
  support::Status checkComplete() const;
  support::Status loadTokens(uint64_t row, uint64_t place);
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
  std::optional<support::MappedFile> tokens_;
  uint64_t tokenBytes_ = 2;
  uint64_t rows_ = 0; // of the token file
  int idsInput_ = -1, labelsInput_ = -1;
  std::vector<std::unique_ptr<support::NpyFile>> arrays_; // by input; null: none
  std::vector<std::vector<std::byte>> buffers_;           // by input: a global batch
  std::vector<std::vector<int64_t>> shapes_;              // by input: a micro-batch, not cut
  std::vector<std::vector<uint64_t>> places_;             // by input: as permutedPlaces() says
  std::vector<const std::byte *> pointers_;
  std::string note_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_DATA_H

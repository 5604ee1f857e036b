// Provides the initial values of the states: from the user's or the model's files, or drawn.
// The test is test/runtime/WeightsTest.cpp.
#ifndef LLMC_RUNTIME_STATES_WEIGHTS_H
#define LLMC_RUNTIME_STATES_WEIGHTS_H

#include "lib/planfile/Program.h"
#include "lib/support/Checkpoint.h"
#include "lib/support/Error.h"
#include "lib/support/File.h"
#include "lib/support/Progress.h"
#include "runtime/cpu/Executor.h"
#include "runtime/plan/Shard.h"
#include "runtime/states/WeightsCheck.h"

#include <memory>
#include <string>
#include <vector>

namespace llmc::runtime {

// Selects the source of the values.
struct WeightsOptions {
  std::string weights; // --weights: "", "random", a safetensors file or a folder
  uint64_t seed = 0;
  std::string folder;  // of the program, which is searched for the model's files too
};

// Owns the open files and the location of each source tensor in them.
class Weights {
public:
  // Locates every source tensor and checks that it is there with the right shape. `program`
  // must outlive this object. Fails with a list of what is missing or does not fit.
  static support::Result<Weights> open(const planfile::ProgramT &program,
                                       const WeightsOptions &options);

  // Fills the parameters and masters of all ranks, each with its own shard; all other states
  // and all padding stay zero. A state of 16-bit floats gets the float32 values rounded to
  // nearest, ties to even, so that a parameter is its master rounded. Arenas must be fresh; shared states are sealed afterwards.
  // Adds the shards filled to `phase`. Fails if a file cannot be read.
  support::Status fill(const Executor &executor, support::Progress::Phase *phase = nullptr) const;

  // Returns the files that it reads, and an index and a config.json beside them.
  std::vector<std::string> paths() const;

  // Returns a check that compares every byte of the model's own files with the hashes taken
  // at compile time; the caller must begin() it. This object must outlive it.
  std::unique_ptr<WeightsCheck> check() const;

  // Returns one line for the start-up.
  const std::string &note() const { return note_; }

private:
  // Locates one source tensor in a file, or marks it as drawn.
  struct TensorLocation {
    int file = -1; // index into files_; -1: drawn
    uint64_t offset = 0;
    support::ElementType type = support::ElementType::F32;
    bool transposed = false; // the file holds the transpose
    int scalesFile = -1;     // index into files_; -1: none
    support::ScaleLocation scales;
  };

  Weights(const planfile::ProgramT &program, uint64_t seed)
      : program_(program), seed_(seed), locations_(program.sources.size()) {}
  support::Status useFiles(const std::string &path);
  support::Status useModelFiles(const std::string &folder);
  // Locates a source tensor in `checkpoint`. Adds it to `missing` if it is not there and a state
  // holds it (`isHeld`), and to `wrong` if it does not fit. Fails if a file cannot be opened.
  support::Status findIn(support::Checkpoint &checkpoint, size_t source, bool isHeld,
                         std::vector<std::string> &missing, std::vector<std::string> &wrong);
  std::string dequantised() const;
  std::string sourceNameOf(uint32_t stage, const planfile::StateShardT &state) const;
  support::Result<int> openFile(const std::string &path); // index into files_
  support::Status fillState(const Executor &executor, uint32_t stage,
                            const planfile::StateShardT &state,
                            support::Progress::Phase *phase) const;
  support::Status fillHeld(const std::vector<HeldBox> &boxes, const planfile::ViewT &view,
                           planfile::DType type, std::byte *to) const;
  template <class T>
  support::Status fillShard(const Shard &shard, const planfile::ViewT &view, T *to) const;
  template <class T>
  support::Status fillBoxes(const std::vector<HeldBox> &boxes, const planfile::ViewT &view,
                            T *to) const;
  template <class T>
  void draw(size_t source, int64_t first, int64_t count, int64_t stride, T *to) const;

  const planfile::ProgramT &program_;
  uint64_t seed_;
  std::vector<TensorLocation> locations_; // by source
  std::vector<support::ReadableFile> files_;
  std::vector<uint64_t> hashes_; // of the model's own files, at compile time
  std::string note_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_WEIGHTS_H

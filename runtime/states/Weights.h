// First values of the states: from the user's or the model's files, or drawn.
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

struct WeightsOptions {
  std::string weights; // --weights: "", "random", a safetensors file or a folder
  uint64_t seed = 0;
  std::string folder;  // of the program, where the model's files are looked for too
};

class Weights {
public:
  // Decides where every source tensor comes from, and checks that it is there
  // with the right shape. `program` must outlive this object.
  static support::Result<Weights> open(const planfile::ProgramT &program,
                                       const WeightsOptions &options);

  // Fills the parameters and masters of all ranks, each with its own shard; all
  // other states and all padding are left zero. Arenas must be fresh; shared states
  // are sealed. Tells `phase` how many shards of how many. An error if a file cannot be read.
  support::Status fill(const Executor &executor, support::Progress::Phase *phase = nullptr) const;

  // The files that it reads, and the index that names them.
  std::vector<std::string> paths() const;

  // Starts to compare every byte of the model's own files with what they were when it
  // was compiled. This object must outlive it.
  std::unique_ptr<WeightsCheck> check() const;

  // One line for the start-up.
  const std::string &note() const { return note_; }

private:
  // Where one source tensor comes from; no file: drawn.
  struct Place {
    int file = -1; // index into files_
    uint64_t offset = 0;
    support::ElementType type = support::ElementType::F32;
    bool transposed = false; // the file holds the transpose
    int scalesFile = -1;     // index into files_; -1: none
    support::ScalePlace scales;
  };

  Weights(const planfile::ProgramT &program, uint64_t seed)
      : program_(program), seed_(seed), places_(program.sources.size()) {}
  support::Status useFiles(const std::string &path);
  support::Status useModelFiles(const std::string &folder);
  // Adds a tensor that is not there to `missing`, one that does not fit to `wrong`.
  support::Status findIn(support::Checkpoint &checkpoint, size_t source,
                         std::vector<std::string> &missing, std::vector<std::string> &wrong);
  std::string dequantised() const;
  support::Result<int> openFile(const std::string &path); // index into files_
  support::Status fillState(const Executor &executor, uint32_t stage,
                            const planfile::StateShardT &state,
                            support::Progress::Phase *phase) const;
  template <class T>
  support::Status fillShard(const Shard &shard, const planfile::ViewT &view, T *to) const;
  template <class T>
  support::Status fillBoxes(const std::vector<HeldBox> &boxes, const planfile::ViewT &view,
                            T *to) const;
  template <class T>
  void draw(size_t source, int64_t first, int64_t count, int64_t stride, T *to) const;

  const planfile::ProgramT &program_;
  uint64_t seed_;
  std::vector<Place> places_; // by source
  std::vector<support::ReadableFile> files_;
  std::vector<uint64_t> hashes_; // of the model's own files: as they were when it was compiled
  std::string note_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_WEIGHTS_H

// Holds how far each simulated rank has come, and what connects it with its peers. Tests: test/simulate.
#ifndef LLMC_LIB_SIMULATE_RANKS_H
#define LLMC_LIB_SIMULATE_RANKS_H

#include "runtime/plan/StageProgram.h"

#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace llmc::simulate {

// Holds the posts of one group and stream: the k-th of every member is the same collective. `ended` is by number.
struct Group {
  uint32_t members = 0;
  std::vector<uint32_t> ranks; // indices of the simulated ones
  struct Call {
    uint32_t arrived = 0;
    double latest = 0, end = -1; // end < 0: not known
  };
  std::vector<Call> calls;
};

// Holds the messages of one channel: the k-th of either side are the same.
struct Channel {
  uint32_t ends[2] = {}; // indices of the simulated source and destination
  struct Message {
    double posted[2] = {-1, -1}, end = -1;
  };
  std::vector<Message> messages;
  uint64_t posts[2] = {};
};

struct End {
  Channel *channel = nullptr;
  int side = 0; // 0: source
};

struct Stream {
  uint32_t entry = 0, position = 0;
  double time = 0;           // of accelerators: when its last instruction ended
  double begun = -1;         // of the current op: its first try; < 0: none
  std::vector<uint64_t> numbers{0}; // of the current op's collective or messages
  bool posted = false;
};

struct Rank {
  uint32_t id = 0; // in the mesh
  const runtime::StageProgram *program = nullptr;
  std::vector<Stream> streams;
  std::vector<std::vector<double>> events; // by counter: when each record happened
  std::vector<Group *> groups;             // by Op::index of collectives
  std::vector<uint64_t *> posts;           // by Op::index: collectives of this rank in the group so far
  std::vector<End> messages;               // by Op::index

  // Returns the current op of a stream, after skipping entries without one; null at the end.
  const runtime::Op *current(size_t stream);
  const runtime::StageProgram::Entry &entry(size_t stream) const { return program->table[streams[stream].entry]; }
};

// Owns the simulated ranks: all, or the first of each stage, which then stands for its peers.
class Ranks {
public:
  Ranks(const planfile::ProgramT &program, const std::vector<std::unique_ptr<runtime::StageProgram>> &stages, bool all);
  std::vector<Rank> ranks;

private:
  uint32_t indexOf(uint32_t rank) const;
  void connect(Rank &rank);

  const planfile::ProgramT &program_;
  bool all_;
  std::map<uint32_t, uint32_t> first_; // of each stage: its index
  // Holds groups by ranks and stream, as the runtime does, and where one rank stands for many by their axes too.
  std::map<std::tuple<std::vector<uint32_t>, uint8_t, std::vector<uint32_t>>, std::unique_ptr<Group>> groups_;
  std::map<std::pair<const Group *, uint32_t>, std::unique_ptr<uint64_t>> posts_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::unique_ptr<Channel>> channels_;
};

} // namespace llmc::simulate

#endif // LLMC_LIB_SIMULATE_RANKS_H

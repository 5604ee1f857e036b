// Holds the state of one rank in this process: its memory, what connects it with its peers, and
// how far each of its streams has come. The test is test/runtime/ExecutorTest.cpp (Events).
//
// A stream is an in-order queue with its own position in the table of the stage. A `Site` is the
// instruction at which one stream stands.
#ifndef LLMC_RUNTIME_CPU_RANK_H
#define LLMC_RUNTIME_CPU_RANK_H

#include "runtime/cpu/Arena.h"
#include "runtime/plan/StageProgram.h"
#include "runtime/transport/Transport.h"

#include <span>
#include <vector>

namespace llmc::runtime {

// Refers to a communicator and to the index of a rank among its members.
struct Member {
  Communicator *communicator = nullptr;
  uint32_t index = 0;
};

// Refers to the end of a channel that a rank uses.
struct MessageEnd {
  Channel *channel = nullptr;
  Channel::Side side = Channel::Source;
};

// Describes a collective or message in flight.
struct PendingTransfer {
  bool posted = false, ended = false;
  uint64_t number = 0;
  std::vector<std::span<std::byte>> parts;
};

// Holds how far a stream has come; it may be left and resumed between any two instructions.
struct Stream {
  uint32_t entry = 0, position = 0;
  uint64_t begun = 0; // nanoseconds: first try of the current op, if observed
  // Holds the current collective or message, or each member of the current message group.
  std::vector<PendingTransfer> flights{1};
};

// Counts what a rank has run, by Op::index.
struct Traffic {
  std::vector<uint64_t> collectiveCalls, messageCalls;
  std::vector<uint64_t> rowsSent; // by an ExchangeRows to other ranks
};

struct Rank {
  Rank(uint32_t id, const StageProgram *program, Arena arena)
      : id(id), program(program), arena(std::move(arena)) {}

  // Returns the current op of stream `index`, after skipping empty entries; null at the end.
  const Op *current(size_t index) {
    Stream &stream = streams[index];
    while (stream.entry < program->table.size()) {
      const StageProgram::Entry &entry = program->table[stream.entry];
      const auto &list = program->procedures[entry.procedure].byStream[index];
      if (stream.position < list.size())
        return &program->ops[list[stream.position]];
      ++stream.entry;
      stream.position = 0;
    }
    return nullptr;
  }

  uint32_t id;
  const StageProgram *program;
  Arena arena;
  std::vector<std::byte *> bases; // by Buffer::base
  std::vector<uint32_t> coordinate;
  std::vector<Stream> streams;
  std::vector<uint32_t> events;
  std::vector<Member> members;       // by Op::index
  std::vector<MessageEnd> messages;  // by Op::index
  std::vector<uint64_t> inputOffset; // of this rank's part, by input
  Traffic traffic, trafficAtStart; // of the step
};

// Names the current op of a stream, or one member of its message group.
struct Site {
  Rank &rank;
  Stream &stream;
  const StageProgram::Entry &entry;
  const Op &op;
  unsigned worker;     // that drives the rank
  uint32_t member = 0; // index of `op` in its message group

  PendingTransfer &flight() const { return stream.flights[member]; }
  // Returns the index of `op` in the program of the stage.
  uint32_t opIndex() const { return static_cast<uint32_t>(&op - rank.program->ops.data()); }
  // Returns the site of a member of the group that begins with this op.
  Site memberOf(uint32_t index) const { return {rank, stream, entry, (&op)[index], worker, index}; }
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_RANK_H

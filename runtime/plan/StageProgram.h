// Lays out what all ranks of one stage run for the executor: flat arrays, one list of ops for each
// stream of a procedure, events resolved over the whole step. The fuzzer is test/fuzz/Plan.cpp.
#ifndef LLMC_RUNTIME_PLAN_STAGEPROGRAM_H
#define LLMC_RUNTIME_PLAN_STAGEPROGRAM_H

#include "lib/planfile/Program.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmc::runtime {

// Holds what a table entry assigns to a lane. Event instances are numbered over all pools.
struct Lane {
  uint32_t slot = 0, microBatch = 0, instance = 0;
};

// Refers to bytes of a rank: of its arena (base 0), or of a shared state (SharedStates.h).
struct Buffer {
  uint64_t offset = 0, stride = 0, size = 0;
  uint32_t base = 0, lane = 0;
  uint64_t offsetIn(const Lane *lanes) const {
    return stride == 0 ? offset : offset + lanes[lane].slot * stride;
  }
  std::byte *at(std::byte *const *bases, const Lane *lanes) const {
    return bases[base] + offsetIn(lanes);
  }
};

struct Op {
  planfile::Body kind = planfile::Body::NONE;
  uint8_t stream = 0;
  uint8_t lane = 0; // lane of its event, message or input
  uint32_t origin = 0; // index into Program.origins
  uint32_t firstBuffer = 0, buffers = 0; // into StageProgram::buffers
  uint32_t firstScalar = 0, scalars = 0; // into StageProgram::scalars
  // Identifies, by kind: Launch, the kernel; Matmul, Collective, Send, Recv, the index in the
  // stage's list of ops of that kind (Send and Recv share one); Feed, the input; Record, the
  // counter of instance 0; Wait, the index among the waits of its procedure.
  uint32_t index = 0;
  bool wholeStep = false;
  bool hasRoutes = false; // a launch that writes routes
  bool commits = false; // an op of the update that writes a weight or a moment
  // Counts the messages of the group that this op begins, which follow one another.
  uint16_t members = 1;
  int64_t rows = 0;
};

// Computes base + coefs . coordinate of the rank.
struct Scalar {
  int64_t base = 0;
  uint32_t firstCoef = 0, coefs = 0;
};

// Describes what a Wait in one table entry needs: `counter` of the rank is at least `target`.
struct WaitTarget {
  uint32_t counter = 0, target = 0;
};

struct StageProgram {
  StageProgram(const planfile::ProgramT &program, uint32_t stage);
  StageProgram(const StageProgram &) = delete; // entries point into `lanes`

  struct Procedure {
    uint32_t firstOp = 0;
    uint32_t waits = 0;
    std::vector<std::vector<uint32_t>> byStream; // ops in order
  };
  struct Entry {
    uint32_t procedure = 0;
    uint32_t firstWait = 0;
    const Lane *lanes = nullptr;
    uint32_t laneCount = 0;
  };

  // Returns the instance of the event of `op`, a Record or Wait, in an entry.
  uint32_t instanceOf(const Op &op, const Entry &entry) const {
    return op.wholeStep ? instances - 1 : entry.lanes[op.lane].instance;
  }
  // Returns the counter that `op`, a Record, increments in an entry.
  uint32_t counterOf(const Op &op, const Entry &entry) const {
    return op.index + instanceOf(op, entry);
  }

  // Returns a scalar for the rank of a coordinate.
  int64_t valueOf(const Scalar &scalar, const std::vector<uint32_t> &coordinate) const;

  // Returns the instruction of the plan from which ops[op] was made.
  const planfile::InstructionT &instructionOf(uint32_t op) const;

  const planfile::StageT *plan;
  uint32_t stage;
  std::vector<Op> ops;
  std::vector<Procedure> procedures;
  std::vector<Entry> table;
  std::vector<Buffer> buffers;
  std::vector<Scalar> scalars;
  std::vector<int64_t> coefs;
  std::vector<WaitTarget> waits;
  std::vector<Lane> lanes;
  // Tells whether no op writes the loss or the gradient norm after the first op that commits.
  bool outputsFirst = true;
  uint32_t instances = 0; // of an event: one a slot of any pool, and one for the whole step
  uint32_t counters = 0;  // of events, on each rank
  std::vector<const planfile::MatmulT *> matmuls;
  std::vector<const planfile::CollectiveT *> collectives;
  std::vector<uint32_t> collectiveOps, messageOps; // ops by Op::index

private:
  void addTable();
  void addOp(const planfile::InstructionT &instruction, Procedure &procedure);
  void addBuffers(const planfile::BodyUnion &body);
  void addBuffer(const planfile::BufferRefT &ref);
  void addScalar(const planfile::CoordExprT &scalar);
  void resolveEvents();
  void findCommits();

  // Holds the (event, stream) pairs of all Records, in order of appearance.
  std::vector<std::pair<uint32_t, uint8_t>> recorders;
  uint32_t groupBegin = 0; // index of the op that begins the last group of messages
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PLAN_STAGEPROGRAM_H

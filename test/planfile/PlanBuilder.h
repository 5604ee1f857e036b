// Builds correct pipeline plans by hand, small enough to read, for tests that break them.
//
// Every stage computes y = f(x, W); stream 0 computes, 1 sends, 2 receives, 3 reduces. With rows
// of messages, stream 1 does both. The first stage holds a fused matrix as three parameters and
// an embedding that is tied to the last stage; gradients are reduced over dp at the end of the
// last backward, the tied one over both holders and the norm over all in the update.
#ifndef LLMC_TEST_PLANFILE_PLANBUILDER_H
#define LLMC_TEST_PLANFILE_PLANBUILDER_H

#include "lib/planfile/plan_generated.h"

#include <functional>
#include <memory>
#include <string>

namespace llmc::test {

struct PlanShape {
  bool gpipe = false;
  unsigned stages = 2;
  unsigned microBatches = 4;
  unsigned dp = 2;
  unsigned launches = 1; // chained launches of a forward
  // Puts messages in rows of their own, each send in one group with the receive that follows it;
  // else they are inside of forward and backward, as no device could run them under 1F1B.
  bool exchange = false;
};

enum Stream : uint8_t { Compute, SendStream, RecvStream, Reduce };

enum Event : uint32_t {
  XReady, XFree, YReady, YSent, DyReady, DyFree, DxReady, DxSent,
  GradsReady, GradsReduced, NormReady, NormReduced, EventCount
};

planfile::ProgramT makePlan(const PlanShape &shape);

// Builds one run of the forward of the same stages: `y` of each is a result, "y0", "y1", ...
planfile::ProgramT makeInferencePlan(unsigned stages, unsigned dp = 2);

// Returns the procedure of that kind, of which the stage has exactly one.
planfile::ProcedureT &procedureOf(planfile::ProgramT &program, unsigned stage,
                                  planfile::ProcedureKind kind);

// Returns an arena buffer of a stage: "x", "y", "dy", "dx" or "norm".
planfile::BufferRefT bufferOf(const planfile::ProgramT &program, unsigned stage,
                              const std::string &name);

// Returns a buffer of `size` bytes at `offset` of the arena.
std::unique_ptr<planfile::BufferRefT> bytesAt(uint64_t offset, uint64_t size);

// Visits the buffers that an instruction reads or writes.
void forEachRef(planfile::InstructionT &inst, const std::function<void(planfile::BufferRefT &)> &visit);

// Replaces every use of buffer `from` on the stage by `to`.
void moveBuffer(planfile::ProgramT &program, unsigned stage, const planfile::BufferRefT &from,
                const planfile::BufferRefT &to);

} // namespace llmc::test

#endif // LLMC_TEST_PLANFILE_PLANBUILDER_H

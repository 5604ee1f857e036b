// Builds by hand a pipeline plan in which each stage holds several chunks of layers, the backward
// is split, each live range has a slot pool, and messages wrap around the stages and are sent in
// groups.
//
// Chunk c of stage s is position c * stages + s of the pipeline, with one layer each: y = x * w,
// element by element. Stream 0 computes, stream 1 exchanges, stream 2 reduces over dp. Time
// advances in rounds: each stage runs one forward, backward or weight pass, then exchanges in one
// group what the round produced.
#ifndef LLMC_TEST_PLANFILE_CHUNKPLAN_H
#define LLMC_TEST_PLANFILE_CHUNKPLAN_H

#include "lib/planfile/plan_generated.h"

#include <cstdint>
#include <memory>

namespace llmc::test {

struct ChunkShape {
  unsigned stages = 2, chunks = 2, microBatches = 4, dp = 2;
  unsigned activations = 2; // slots of the pool from forward to weights
  unsigned gradients = 1;   // slots of the pool from backward to weights
};

// Identifies the kernels of such a plan. Each writes its last buffer and reads the others; Loss
// adds to its third one and AddWeight to its last one.
enum class ChunkKernel : uint32_t {
  Forward,   // x, w -> y
  Loss,      // y, label, sum -> dy
  Backward,  // dy, w -> dx
  AddWeight, // x, dy -> gradient
  Update,    // lr, gradient -> w
  ReadLoss,  // sum -> loss
};
inline constexpr uint64_t kChunkFloats = 4; // elements of a tensor; lr, sum and loss have one

std::unique_ptr<planfile::ProgramT> makeChunkPlan(const ChunkShape &shape);

} // namespace llmc::test

#endif // LLMC_TEST_PLANFILE_CHUNKPLAN_H

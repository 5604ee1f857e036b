// Everything that a compilation may be asked for. One struct; the tools fill it,
// the pipeline hands each phase its part.
#ifndef LLMC_LIB_PIPELINE_OPTIONS_H
#define LLMC_LIB_PIPELINE_OPTIONS_H

#include "lib/pipeline/Phases.h"
#include "lib/planfile/MeshAxes.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace llmc {
namespace support {
class Progress;
} // namespace support

enum class Schedule { GPipe, OneFOneB };
enum class Optimizer { Sgd, AdamW };
// What is one parameter. Auto: equal embedding and head; of vectors that several nodes of
// a file use, each use is a parameter. Off: head and embedding are two. Exact: as Auto,
// and a vector that the file holds once is one.
enum class Tie { Auto, Off, Exact };

constexpr const char *nameOf(Tie tie) {
  return tie == Tie::Auto ? "auto" : tie == Tie::Off ? "off" : "exact";
}

// The mesh is that of its base: the sizes of the named axes.
struct CompileOptions : planfile::MeshSizes {
  std::string model;  // ONNX file, config.json, or a folder that holds one
  std::string output;
  // One run of the model's own outputs in place of a training step. The batch is then
  // what the importer binds (--dim, else the file): dp divides it, one micro-batch.
  bool infer = false;
  // Rows of one micro-batch of one data-parallel rank; rows of a whole step
  // (0: 4 x dp x pp x micro_batch); tokens of a row (0: from the model).
  int64_t microBatch = 1, globalBatch = 0, sequence = 0;
  std::map<std::string, int64_t> dims; // --dim name=value
  Schedule schedule = Schedule::OneFOneB;
  Optimizer optimizer = Optimizer::AdamW;
  Tie tie = Tie::Auto;
  bool raise = true; // --raise on
  std::string weights; // "": what the model holds; "random"; file or folder

  std::vector<std::string> cudaKernels; // --cuda-kernels: chips to emit kernels for too

  std::string dumpFolder;   // --dump-phases: one .mlir after each phase

  support::Progress *progress = nullptr; // is told of large files as they are read

  // Called after each phase with the module that it left, which it may change: so tests plant
  // faults. After `emit` the kernels are functions in it, not yet machine code.
  std::function<void(Phase, mlir::Operation *)> afterPhase;

  // Rows of the global view of one micro-batch; of a step; micro-batches of a step.
  int64_t batchRows() const { return microBatch * dp; }
  int64_t globalRows() const { return globalBatch ? globalBatch : 4 * batchRows() * pp; }
  int64_t microBatches() const { return globalRows() / batchRows(); }
  int64_t ranks() const { return pp * ranksOfStage(); }
};

} // namespace llmc

#endif // LLMC_LIB_PIPELINE_OPTIONS_H

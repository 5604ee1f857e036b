// Holds everything that a compilation can be asked for. The tools fill in one struct, and the
// pipeline passes each phase its part. Tests: test/numerics/counts.py (what the sizes give),
// test/numerics/refusals.py.
#ifndef LLMC_LIB_OPTIONS_OPTIONS_H
#define LLMC_LIB_OPTIONS_OPTIONS_H

#include "lib/options/Phases.h"
#include "lib/planfile/MeshAxes.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace llmc {
namespace support {
class Progress;
} // namespace support

// Selects the order of the micro-batches in a pipeline; lib/schedules has the orders.
enum class Schedule { GPipe, OneFOneB, Interleaved, ZeroBubble };
// Selects what backward computes again in place of reading what forward kept. Auto: as little as
// fits the memory limit.
enum class Recompute { None, Selective, Full, Auto };
// Selects how attention of a sequence that is cut over cp sees all keys: heads are exchanged for tokens
// (Jacobs et al., 2023), or keys and values travel around a ring (Liu et al., 2023).
enum class CpKind { Heads, Ring };
// Names what the tables of angles of a config.json's positions hold: their numbers; others, of tables as large, where nothing is
// computed with them; or equal numbers, which are read in no time but which no rank moves or keeps.
enum class AngleTables { Computed, Sized, LeftOut };
enum class Optimizer { Sgd, AdamW };
// Selects what counts as one parameter. Auto: an equal embedding and head are one; of vectors that
// several nodes of a file use, each use is one. Off: head and embedding are two. Exact: as Auto,
// and a vector that the file holds once is one.
enum class Tie { Auto, Off, Exact };

// Selects what spreads tokens over experts: an auxiliary loss, or biases of routers that each step moves.
enum class Balance { None, Aux, Bias };

constexpr const char *nameOf(Balance balance) {
  return balance == Balance::Aux ? "aux" : balance == Balance::Bias ? "bias" : "none";
}

// Selects the type of weights, activations, their gradients and messages.
enum class Precision { Fp32, Bf16, Fp16 };

constexpr const char *nameOf(Precision precision) {
  return precision == Precision::Fp32 ? "fp32" : precision == Precision::Bf16 ? "bf16" : "fp16";
}

constexpr const char *nameOf(Recompute recompute) {
  return recompute == Recompute::None   ? "none"
         : recompute == Recompute::Full ? "full"
         : recompute == Recompute::Auto ? "auto"
                                        : "selective";
}

constexpr const char *nameOf(Schedule schedule) {
  return schedule == Schedule::GPipe         ? "gpipe"
         : schedule == Schedule::OneFOneB    ? "1f1b"
         : schedule == Schedule::Interleaved ? "interleaved"
                                             : "zero-bubble";
}

constexpr const char *nameOf(CpKind kind) { return kind == CpKind::Ring ? "ring" : "heads"; }

constexpr const char *nameOf(Tie tie) {
  return tie == Tie::Auto ? "auto" : tie == Tie::Off ? "off" : "exact";
}

// Holds the options of a compilation. Its base holds the mesh, as the sizes of the named axes.
struct CompileOptions : planfile::MeshSizes {
  CompileOptions() { etp = 0; } // until it is given or the model is known
  std::string model;  // ONNX file, config.json, or a folder that holds one
  std::string output;
  // Compiles one run of the model's own outputs in place of a training step. The batch is then what
  // the importer binds (--dim, else the file): one micro-batch, which dp divides.
  bool infer = false;
  // Gives the rows of one micro-batch of one data-parallel rank, the rows of a whole step (0: 4 x
  // dp x pp x micro_batch) and the tokens of a row (0: from the model).
  int64_t microBatch = 1, globalBatch = 0, sequence = 0;
  std::map<std::string, int64_t> dims; // --dim name=value
  // Names the schedule; without one that of the virtual stages.
  std::optional<Schedule> schedule;
  // Counts the chunks of layers that a stage runs in turn; without a value 2 if they interleave, else 1.
  std::optional<int64_t> virtualStages;
  // Counts the layers of each virtual stage, in the order of the model; empty: balanced by FLOPs.
  std::vector<int64_t> stages;
  Optimizer optimizer = Optimizer::AdamW;
  Tie tie = Tie::Auto;
  bool raise = true; // --raise on
  // Names the type to compute in; without one a training computes in fp32 and an inference in the
  // type of MODEL's weights (storedPrecision).
  std::optional<Precision> precision;
  Precision gradDtype = Precision::Fp32; // of the accumulators of gradients
  // Names the type in which gradients are reduced over data-parallel ranks; without one that of the
  // accumulators.
  std::optional<Precision> reduceDtype;
  // Gives the factor of the loss in fp16: 0 is found while training. What a step does whose
  // gradients are not finite; without a value fp16 skips and others stop.
  double lossScale = 0;
  std::optional<bool> skipNonfinite;
  // Gives the rate of dropout at every place of the model; `configDropout` takes the rates of the
  // config.json in its stead. Without either nothing is dropped.
  std::optional<double> dropout;
  bool configDropout = false;
  // Gives the stage of ZeRO, 0 to 3; without a value 1.
  std::optional<int> zero;
  // Cuts the sequence over the tensor-parallel ranks between products; without a value where these
  // divide it.
  std::optional<bool> sequenceParallel;
  // Gives the rows for which a rank of experts has room, by their average, or 0: kMoeBudget; and the rows that
  // an expert takes of each row of tokens, by their average, or 0: all.
  double moeBudget = 0, moeCapacity = 0;
  static constexpr double kMoeBudget = 2;
  bool roomForAll = false; // whatever the budget: ranks have room for all rows that their experts could get
  bool countsLost = false; // rows that find no room are counted where none can be: states then lie alike
  // Names how experts are balanced, without one by what the model's config asks for; the factor of the
  // auxiliary loss, without one the config's; and what a step moves a bias by, without one kBiasRate.
  std::optional<Balance> moeBalance;
  std::optional<double> moeAuxLoss, moeBiasRate;
  CpKind cpKind = CpKind::Ring; // how attention sees the tokens of other ranks
  Recompute recompute = Recompute::None;
  int64_t memoryLimit = 0; // most bytes of the arena of a rank; 0: any
  bool fuse = true; // joins ops into kernels
  int64_t gatherAhead = 1; // layers whose weights stage 3 gathers before their turn
  std::string weights; // "": those of the model; "random"; file or folder

  // Imports one layer of each kind of a config.json: a prediction counts the others, and a model of any depth is read
  // as fast as one of few layers. The module then says of which kind each layer is (layer_kinds of graph.model).
  bool oneLayerOfEach = false;
  AngleTables angles = AngleTables::Computed;
  // Imports these layers of a config.json alone, by number, in order; empty: all.
  std::vector<int64_t> layersKept;
  bool verifiesIr = true; // after each pass and phase; a prediction, of which nothing is run, takes half the time without

  std::vector<std::string> cudaKernels; // --cuda-kernels: chips to emit kernels for too

  std::string dumpFolder;   // --dump-phases: one .mlir after each phase

  support::Progress *progress = nullptr; // reports large files as they are read; may be null

  // Runs after each phase on the module that it left, which it may change: tests inject faults
  // here. After `emit` the module has kernels as functions, not yet as machine code.
  std::function<void(Phase, mlir::Operation *)> afterPhase;

  // Gives what a step moves the bias of a router by: the rate with which DeepSeek-V3 was trained.
  static constexpr double kBiasRate = 0.001;

  // Limits the scale of the loss to what leaves room for gradients in float32.
  static constexpr double kMostLossScale = 0x1p64;

  // Limits a number of bytes to what sums of some of them can hold.
  static constexpr int64_t kMostBytes = int64_t(1) << 56;

  // Limits the layers that are gathered ahead: more than that is no window any more.
  static constexpr int64_t kMostAhead = 1024;

  // Limits the chunks of layers of a stage.
  static constexpr int64_t kMostChunks = 1024;

  // Limits micro-batches x stages: a step is a table of them, which stays small enough to be read.
  static constexpr int64_t kMostRuns = int64_t(1) << 18;

  // Returns whether the loss has a scale; whether a step with a gradient that is not finite is left
  // out in place of ending the run.
  bool scalesLoss() const { return !infer && precision == Precision::Fp16; }
  bool skipsNonfinite() const { return skipNonfinite.value_or(scalesLoss()); }
  // Returns the schedule and the chunks of a stage that the choices make together. Both may be
  // invalid: checkChoices in lib/pipeline refuses such.
  Schedule scheduleKind() const {
    return schedule.value_or(virtualStages.value_or(1) > 1 ? Schedule::Interleaved : Schedule::OneFOneB);
  }
  int64_t chunks() const {
    return virtualStages.value_or(schedule == Schedule::Interleaved ? 2 : 1);
  }
  // Returns the stage of ZeRO; 0 where no other rank has the same data-parallel states.
  int zeroStage() const { return infer || dp * cp == 1 ? 0 : zero.value_or(1); }

  // Returns whether rows of `tokens` tokens are cut over the tensor-parallel ranks too.
  bool cutsSequence(int64_t tokens) const {
    return tp > 1 && tokens % (tp * cp) == 0 && sequenceParallel.value_or(!infer || ep > 1);
  }
  // Returns the sizes of the mesh for a model with or without experts: where ranks share these out, each
  // has whole ones, else what one computes is shared out as dense work is.
  planfile::MeshSizes meshSizes(bool hasExperts) const {
    planfile::MeshSizes sizes = *this;
    if (!sizes.etp)
      sizes.etp = hasExperts && ep == 1 ? tp : 1;
    return sizes;
  }

  // Returns the rows of the global view of one micro-batch; of a step; the micro-batches of a step.
  int64_t batchRows() const { return microBatch * dp; }
  int64_t globalRows() const { return globalBatch ? globalBatch : 4 * batchRows() * pp; }
  int64_t microBatches() const { return globalRows() / batchRows(); }
  int64_t ranks() const { return pp * ranksOfStage(); }
};

} // namespace llmc

#endif // LLMC_LIB_OPTIONS_OPTIONS_H

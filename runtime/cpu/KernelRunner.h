// Runs launches and matrix products on the threads of a worker, each product by the matmul
// library or by the program's own kernel. The test is test/runtime/ExecutorTest.cpp
// (LaunchIsSplitOverRows, MatmulByLibraryAndByFallback).
#ifndef LLMC_RUNTIME_CPU_KERNELRUNNER_H
#define LLMC_RUNTIME_CPU_KERNELRUNNER_H

#include "runtime/compute/GroupedProduct.h"
#include "runtime/compute/Kernels.h"
#include "runtime/compute/MatmulLibrary.h"
#include "runtime/compute/ThreadTeam.h"
#include "runtime/cpu/LocalRanks.h"
#include "runtime/cpu/RoutesHook.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llmc::runtime {

// Gives the least bytes of the operands of a launch that helpers share: a smaller one ends before a helper is awake.
inline constexpr uint64_t kLeastSharedBytes = 1 << 17;

// Owns the helper threads of all workers and the handle of the library.
class KernelRunner {
public:
  struct Options {
    unsigned workers = 1, threads = 1; // threads of each worker
    bool useLibrary = true;            // false: the program's own kernels multiply matrices
    bool isolate = false;              // all other arenas are closed while a kernel runs
    // Pins the calling helper; called once by each.
    std::function<void(unsigned worker, unsigned thread)> pin;
    RoutesHook routes; // sees what launches write; may be empty
  };
  // Prepares all products of `ranks`, which must outlive it, as must `kernels`.
  KernelRunner(const Kernels &kernels, const LocalRanks &ranks, const Options &options);

  void launch(const Site &site);
  // Tells whether launches show what they write to Options::routes.
  void showRoutes(bool show) { showsRoutes_ = show && routes_; }
  const RoutesHook &routesHook() const { return routes_; }
  // Returns false if the library failed.
  bool matmul(const Site &site);

  unsigned workers() const { return static_cast<unsigned>(teams_.size()); }
  unsigned threads() const { return threads_; }
  // Returns whether the library computes product `index` (Op::index) of a stage.
  bool byLibrary(uint32_t stage, uint32_t index) const {
    const GroupedProduct *product = grouped(stage, index);
    return product ? product->byLibrary() : !parts_[stage][index].empty();
  }
  // Returns product `index` of a stage if it is one of routed rows, else null.
  GroupedProduct *grouped(uint32_t stage, uint32_t index) const { return grouped_[stage][index].get(); }
  // Returns what multiplies matrices, for the start-up lines.
  const std::string &libraryNote() const { return libraryNote_; }

private:
  class Isolation;
  void prepareLibrary(bool use);
  void compute(const Site &site);
  void showRoutesOf(const Site &site) const;
  bool groupedMatmul(const Site &site);
  std::string noteOfLibrary() const;

  const Kernels &kernels_;
  const LocalRanks &ranks_;
  unsigned threads_;
  bool isolate_;
  RoutesHook routes_;
  bool showsRoutes_;
  std::vector<std::unique_ptr<ThreadTeam>> teams_; // by worker
  std::unique_ptr<MatmulLibrary> library_;
  std::string libraryNote_;
  std::vector<std::vector<std::vector<MatmulPart>>> parts_; // by stage, Op::index
  std::vector<std::vector<std::unique_ptr<GroupedProduct>>> grouped_; // by stage, Op::index
  std::vector<GroupedScratch> scratch_; // by worker
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_KERNELRUNNER_H

// Measures where the time of the steps goes, for those who make kernels faster: by kernel,
// shape of product and kind of other instruction, then by class, beside what this machine can
// do. Executor fills it for --profile. The test is test/runtime/TraceTest.cpp
// (NamesTheMembersOfAGroup).
#ifndef LLMC_RUNTIME_PROFILE_PROFILE_H
#define LLMC_RUNTIME_PROFILE_PROFILE_H

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace llmc::runtime {

struct MachineSpeed;

// Accumulates times by worker and instruction, and prints them as a table.
class Profile {
public:
  enum Class : uint8_t { Matmul, Attention, Kernels, Communication, Movement, Events };

  // Describes one execution of an instruction; rows of the table merge equal names.
  struct Work {
    std::string name;
    Class kind = Kernels;
    double bytes = 0, flops = 0;
  };

  // Makes room for `ops[s]` instructions of stage s, measured by `workers` threads.
  Profile(const std::vector<size_t> &ops, unsigned workers);

  // Adds one try of instruction `op` of `stage` by `worker`: its wall time, and the processor
  // time of all threads of the process (0: not measured), in nanoseconds. `ended` states that
  // the try completed it.
  void add(unsigned worker, uint32_t stage, size_t op, uint64_t wall, uint64_t processor,
           bool ended);
  // Adds `wall` nanoseconds in which `worker` drove a rank, in instructions or between them.
  void addDriven(unsigned worker, uint64_t wall) { workers_[worker].driven += wall; }
  // Ends a step that took `wall` nanoseconds. The first step is warm-up: its time and
  // everything added during it are dropped.
  void endStep(uint64_t wall);

  using Describe = std::function<Work(uint32_t stage, size_t op)>;
  // Prints averages a step, or one line if fewer than two steps have ended.
  void print(std::ostream &out, const Describe &describe, const MachineSpeed &machine) const;

  // Holds what one instruction took of all workers and steps, but the first step.
  struct Sum {
    uint32_t stage = 0;
    size_t op = 0;
    uint64_t calls = 0, wall = 0, processor = 0;
  };
  std::vector<Sum> sums() const;
  // Counts the steps of sums(), their nanoseconds, and those in which workers drove ranks.
  uint64_t steps() const { return steps_ > 0 ? steps_ - 1 : 0; }
  uint64_t wall() const { return wall_; }
  uint64_t driven() const;

private:
  struct Cell {
    uint64_t calls = 0, wall = 0, processor = 0;
  };
  struct alignas(64) Worker {
    std::vector<std::vector<Cell>> cells; // [stage][op]
    uint64_t driven = 0;
  };
  struct Row {
    Work work; // summed over all calls, a step
    double calls = 0, wall = 0, processor = 0;
  };
  std::vector<Row> rows(const Describe &describe) const;
  void printRows(std::ostream &out, const std::vector<Row> &rows) const;
  void printClasses(std::ostream &out, const std::vector<Row> &rows,
                    const MachineSpeed &machine) const;

  std::vector<Worker> workers_;
  uint64_t steps_ = 0, wall_ = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PROFILE_PROFILE_H

// Where the time of the steps goes: by kernel, shape of product, and kind of
// everything else, then by class, beside what this machine can do. For those who
// make kernels faster.
#ifndef LLMC_RUNTIME_PROFILE_PROFILE_H
#define LLMC_RUNTIME_PROFILE_PROFILE_H

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace llmc::runtime {

struct Machine;

class Profile {
public:
  enum Class : uint8_t { Matmul, Attention, Kernels, Communication, Movement, Events };

  // What an instruction is called and does once.
  struct Work {
    std::string name;
    Class kind = Kernels;
    double bytes = 0, flops = 0;
  };

  // `ops[s]` instructions of stage s; `workers` threads measure.
  Profile(const std::vector<size_t> &ops, unsigned workers);

  // `worker` tried instruction `op` of `stage` for that many nanoseconds; `processor`
  // of all threads of the process (0: not read). `ended`: it is complete.
  void add(unsigned worker, uint32_t stage, size_t op, uint64_t wall, uint64_t processor,
           bool ended);
  // `worker` drove a rank for that long.
  void addDriven(unsigned worker, uint64_t wall) { workers_[worker].driven += wall; }
  // One step of that many nanoseconds ended; the first is not counted, nor what ran in it.
  void endStep(uint64_t wall);

  using Describe = std::function<Work(uint32_t stage, size_t op)>;
  void print(std::ostream &out, const Describe &describe, const Machine &machine) const;

private:
  struct Cell {
    uint64_t calls = 0, wall = 0, processor = 0;
  };
  struct alignas(64) Worker {
    std::vector<std::vector<Cell>> cells; // by stage, instruction
    uint64_t driven = 0;
  };
  struct Row {
    Work work; // of all calls
    double calls = 0, wall = 0, processor = 0;
  };
  std::vector<Row> rows(const Describe &describe) const;
  void printRows(std::ostream &out, const std::vector<Row> &rows) const;
  void printClasses(std::ostream &out, const std::vector<Row> &rows,
                    const Machine &machine) const;

  std::vector<Worker> workers_;
  uint64_t steps_ = 0, wall_ = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PROFILE_PROFILE_H

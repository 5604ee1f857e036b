// Where the time of the steps goes: by kernel, shape of product, and kind of
// everything else. One table at the end, for those who make kernels faster.
#ifndef LLMC_RUNTIME_PROFILE_H
#define LLMC_RUNTIME_PROFILE_H

#include <cstdint>
#include <ctime>
#include <map>
#include <mutex>
#include <ostream>
#include <string>

namespace llmc::runtime {

class Profile {
public:
  struct Work {
    double bytes = 0, flops = 0;
  };

  // Seconds of the wall, and of all threads of this process.
  struct Clocks {
    double wall = 0, processor = 0;
    static Clocks now();
  };

  // One instruction named `what` ran since `start`.
  void add(const std::string &what, Work work, Clocks start);
  // One step of that many seconds ended; the first is not counted, nor what ran in it.
  void endStep(double seconds);
  void print(std::ostream &out) const;

private:
  struct Row {
    uint64_t calls = 0;
    double wall = 0, processor = 0;
    Work work;
  };
  std::mutex mutex_;
  std::map<std::string, Row> rows_;
  uint64_t steps_ = 0;
  double seconds_ = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PROFILE_H

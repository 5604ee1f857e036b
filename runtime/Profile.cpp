#include "runtime/Profile.h"

#include <algorithm>
#include <cstdio>
#include <vector>

using namespace llmc::runtime;

Profile::Clocks Profile::Clocks::now() {
  auto read = [](clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  return {read(CLOCK_MONOTONIC), read(CLOCK_PROCESS_CPUTIME_ID)};
}

void Profile::add(const std::string &what, Work work, Clocks start) {
  Clocks end = Clocks::now();
  std::lock_guard lock(mutex_);
  Row &row = rows_[what];
  ++row.calls;
  row.wall += end.wall - start.wall;
  row.processor += end.processor - start.processor;
  row.work.bytes += work.bytes;
  row.work.flops += work.flops;
}

void Profile::endStep(double seconds) {
  std::lock_guard lock(mutex_);
  if (steps_++ == 0)
    rows_.clear();
  else
    seconds_ += seconds;
}

void Profile::print(std::ostream &out) const {
  if (steps_ < 2) {
    out << "profile    of the second step and later ones: run more steps\n";
    return;
  }
  double steps = double(steps_ - 1), total = 0;
  std::vector<std::pair<std::string, Row>> rows(rows_.begin(), rows_.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto &x, const auto &y) { return x.second.wall > y.second.wall; });
  char line[400];
  out << "profile       ms/step   cpu ms   calls   GB/s  GFLOP/s  of a step\n";
  for (const auto &[what, row] : rows) {
    total += row.wall;
    std::snprintf(line, sizeof line, "           %10.3f %8.3f %7.0f %6.1f %8.1f %5.1f %%  %s\n",
                  row.wall / steps * 1e3, row.processor / steps * 1e3, double(row.calls) / steps,
                  row.work.bytes / row.wall * 1e-9, row.work.flops / row.wall * 1e-9,
                  100 * row.wall / seconds_, what.c_str());
    out << line;
  }
  std::snprintf(line, sizeof line, "           %10.3f of a step of %.3f ms is none of these\n",
                (seconds_ - total) / steps * 1e3, seconds_ / steps * 1e3);
  out << line;
}

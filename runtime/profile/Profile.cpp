#include "runtime/profile/Profile.h"

#include "runtime/compute/MachineSpeed.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

using namespace llmc::runtime;

namespace {

constexpr const char *kClasses[] = {"matrix products", "attention",
                                    "other kernels",   "collectives, messages",
                                    "copies, fills, feeds", "executor"};

template <class... Ts>
void printLine(std::ostream &out, const char *format, Ts... values) {
  char line[400];
  std::snprintf(line, sizeof line, format, values...);
  out << line;
}

// Formats a cell of a column: "-" if not measured, "<0.001" if too small to show, so that
// neither looks like zero.
std::string column(double value, int width, int digits, bool measured) {
  char number[32], cell[40];
  double least = std::pow(10, -digits);
  if (!measured)
    std::snprintf(number, sizeof number, "-");
  else if (value < least / 2)
    std::snprintf(number, sizeof number, "<%.*f", digits, least);
  else
    std::snprintf(number, sizeof number, "%.*f", digits, value);
  std::snprintf(cell, sizeof cell, "%*s", width, number);
  return cell;
}

} // namespace

Profile::Profile(const std::vector<size_t> &ops, unsigned workers) : workers_(workers) {
  for (Worker &worker : workers_)
    for (size_t count : ops)
      worker.cells.emplace_back(count);
}

void Profile::add(unsigned worker, uint32_t stage, size_t op, uint64_t wall, uint64_t processor,
                  bool ended) {
  Cell &cell = workers_[worker].cells[stage][op];
  cell.calls += ended;
  cell.wall += wall;
  cell.processor += processor;
}

void Profile::endStep(uint64_t wall) {
  if (steps_++ > 0) {
    wall_ += wall;
    return;
  }
  for (Worker &worker : workers_) {
    worker.driven = 0;
    for (auto &cells : worker.cells)
      std::fill(cells.begin(), cells.end(), Cell());
  }
}

std::vector<Profile::Sum> Profile::sums() const {
  std::map<std::pair<uint32_t, size_t>, Sum> all;
  for (const Worker &worker : workers_)
    for (uint32_t stage = 0; stage < worker.cells.size(); ++stage)
      for (size_t op = 0; op < worker.cells[stage].size(); ++op) {
        const Cell &cell = worker.cells[stage][op];
        if (cell.calls == 0 && cell.wall == 0)
          continue;
        Sum &sum = all[{stage, op}];
        sum.stage = stage, sum.op = op;
        sum.calls += cell.calls;
        sum.wall += cell.wall;
        sum.processor += cell.processor;
      }
  std::vector<Sum> list;
  for (const auto &[place, sum] : all)
    list.push_back(sum);
  return list;
}

uint64_t Profile::driven() const {
  uint64_t sum = 0;
  for (const Worker &worker : workers_)
    sum += worker.driven;
  return sum;
}

// Returns averages a step, merged by name, the longest first.
std::vector<Profile::Row> Profile::rows(const Describe &describe) const {
  std::map<std::string, Row> byName;
  double scale = 1.0 / double(steps_ - 1);
  for (const Sum &sum : sums()) {
    Work work = describe(sum.stage, sum.op);
    Row &row = byName[work.name];
    row.work.name = work.name;
    row.work.kind = work.kind;
    row.work.bytes += work.bytes * double(sum.calls) * scale;
    row.work.flops += work.flops * double(sum.calls) * scale;
    row.calls += double(sum.calls) * scale;
    row.wall += double(sum.wall) * 1e-9 * scale;
    row.processor += double(sum.processor) * 1e-9 * scale;
  }
  std::vector<Row> rows;
  for (auto &[name, row] : byName)
    rows.push_back(std::move(row));
  std::sort(rows.begin(), rows.end(), [](const Row &x, const Row &y) { return x.wall > y.wall; });
  return rows;
}

void Profile::print(std::ostream &out, const Describe &describe,
                    const MachineSpeed &machine) const {
  if (steps_ < 2) {
    out << "profile    of the second step and later ones: run more steps\n";
    return;
  }
  std::vector<Row> all = rows(describe);
  printRows(out, all);
  printClasses(out, all, machine);
}

void Profile::printRows(std::ostream &out, const std::vector<Row> &rows) const {
  double all = double(wall_) * 1e-9 / double(steps_ - 1) * double(workers_.size());
  out << "profile       ms/step   cpu ms   calls   GB/s  GFLOP/s  of a step\n";
  for (const Row &row : rows)
    out << "           " << column(row.wall * 1e3, 10, 3, true) << " "
        << column(row.processor * 1e3, 8, 3, row.processor > 0) << " "
        << column(row.calls, 7, 0, true) << " "
        << column(row.work.bytes / row.wall * 1e-9, 6, 1, row.work.bytes > 0 && row.wall > 0) << " "
        << column(row.work.flops / row.wall * 1e-9, 8, 1, row.work.flops > 0 && row.wall > 0) << " "
        << column(100 * row.wall / all, 5, 1, true) << " %  " << row.work.name << "\n";
}

// Prints each class as a share of the time of all workers: each worker has the whole step.
void Profile::printClasses(std::ostream &out, const std::vector<Row> &rows,
                           const MachineSpeed &machine) const {
  double step = double(wall_) * 1e-9 / double(steps_ - 1);
  double all = step * double(workers_.size()), driven = 0, measured = 0;
  Row classes[std::size(kClasses)];
  for (const Worker &worker : workers_)
    driven += double(worker.driven) * 1e-9 / double(steps_ - 1);
  for (const Row &row : rows) {
    Row &sum = classes[row.work.kind];
    sum.wall += row.wall;
    sum.work.bytes += row.work.bytes;
    sum.work.flops += row.work.flops;
    measured += row.wall;
  }
  classes[Events].wall += driven - measured; // adds the time between the instructions
  printLine(out, "by class      ms/step   share of %.3f ms on %zu %s\n", step * 1e3,
            workers_.size(), workers_.size() == 1 ? "worker" : "workers");
  for (size_t i = 0; i < std::size(kClasses); ++i) {
    const Row &sum = classes[i];
    if (sum.wall == 0 && i != Events)
      continue; // the program has no such instruction
    out << "           " << column(sum.wall * 1e3, 10, 3, true) << "  "
        << column(100 * sum.wall / all, 5, 1, true) << " %  " << kClasses[i];
    // Speeds are those of all workers together, which run at the same time.
    double busy = sum.wall / double(workers_.size());
    if (i == Matmul && sum.wall > 0)
      printLine(out, ", %.1f GFLOP/s", sum.work.flops / busy * 1e-9);
    else if ((i == Kernels || i == Movement) && sum.wall > 0)
      printLine(out, ", %.1f GB/s", sum.work.bytes / busy * 1e-9);
    out << "\n";
  }
  out << "           " << column((all - driven) * 1e3, 10, 3, true) << "  "
      << column(100 * (all - driven) / all, 5, 1, true) << " %  idle\n";
  printLine(out, "machine    now, on %u %s: a copy moves %.1f GB/s (read and written)",
            machine.threads, machine.threads == 1 ? "thread" : "threads",
            machine.copyBytesPerSecond * 1e-9);
  if (machine.matmulFlopsPerSecond > 0)
    printLine(out, ", oneDNN multiplies matrices at %.1f GFLOP/s",
              machine.matmulFlopsPerSecond * 1e-9);
  out << "\n";
}

// Describes how fast processors run our own programs, as llmc calibrate measured it; part of a cluster file ("host").
// Tests: test/cost, test/numerics/calibrated.py.
#ifndef LLMC_LIB_COST_HOST_H
#define LLMC_LIB_COST_HOST_H

#include "lib/support/Error.h"
#include "lib/support/Json.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace llmc::cost {

// Holds seconds of matrix products by the library, of one type and of the same two layouts, on a grid of sizes: of
// sizes[i] x sizes[j] x sizes[k] (rows, columns, depth) at (i * n + j) * n + k.
struct ProductGrid {
  std::vector<double> sizes;
  std::vector<double> seconds;

  // Returns the seconds between sizes of the grid, on a line between their logarithms, and past the ends: a size beyond
  // the largest one costs in proportion.
  double timeOf(double rows, double columns, double depth) const;
};

// Holds what kernels take of a rank that has so many threads, while all cores are busy. Seconds, or seconds for each
// unit of what is named.
struct HostRates {
  unsigned threads = 1;
  // Holds, of a launch that helpers share, what it takes beside its start.
  double shared = 0;
  // Holds, of a product in a program, its start, and what it takes by the grid's.
  double product = 0, productScale = 1;
  // Holds, of a launch, its start, vector instructions (planfile::Kernel), bytes of its operands where they fit the caches of a
  // core and beyond, FLOPs of attention forward and backward.
  double launch = 0, instruction = 0, nearByte = 0, farByte = 0, attentionFlop = 0, attentionGradFlop = 0;
  // Holds what products by the program's own kernel take, by FLOPs.
  double ownFlop = 0;
  // Holds, of a product of routed rows, what each expert takes, bytes that are copied, and products by the grid's.
  double routedExpert = 0, routedByte = 0, routedScale = 1;
  double processBytes = 0; // of a program without arenas and scratch of the library
  // Holds what copies and fills take; collectives, by the bytes that their members read and write; messages.
  double copy = 0, copyByte = 0, collective = 0, collectiveByte = 0, message = 0, messageByte = 0;
  // Holds grids by type of the operands and layout of both: "f32 nt" is a row-major, b transposed.
  std::map<std::string, ProductGrid> products;
};

struct HostMachine {
  std::string kernels;   // that the processor runs best: avx2 or avx512
  unsigned cores = 0;
  double nearBytes = 1 << 20; // of a launch whose operands count as near
  double issue = 0;      // of any instruction, beside its work
  double wake = 0;       // until a worker runs a rank that was woken
  double step = 0;       // of a step, beside its instructions
  std::vector<HostRates> rates; // by threads, ascending; at least one

  // Returns the rates of the nearest number of threads.
  const HostRates &of(unsigned threads) const;
};

// Converts to and from the "host" of a cluster file. Problems name the key, what was got and what is valid.
support::OrderedJson hostJson(const HostMachine &host);
HostMachine readHost(const support::Json &json, std::vector<std::string> &problems);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_HOST_H

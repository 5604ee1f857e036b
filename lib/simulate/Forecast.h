// Predicts a step of a compiled program: simulates its plan on the processors or accelerators of a cluster. Tests:
// test/simulate, test/numerics/calibrated.py.
#ifndef LLMC_LIB_SIMULATE_FORECAST_H
#define LLMC_LIB_SIMULATE_FORECAST_H

#include "lib/cost/Kernels.h"
#include "lib/simulate/Simulation.h"
#include "lib/support/Json.h"

#include <string>

namespace llmc::simulate {

struct Forecast {
  Stages stages;
  Timeline timeline;
  unsigned workers = 0, threads = 1; // that drive ranks, 0 on accelerators; of each rank
  uint64_t arena = 0;                // bytes of the largest one
  double processPeak = 0;            // bytes of the process that has all ranks; 0 on accelerators
  double bubble = 0;                 // idle share of the simulated ranks' time
};

// Returns the arenas of all ranks, and the scratch that the library of this machine wants for the products.
double arenaBytes(const planfile::ProgramT &program);
double scratchBytes(const planfile::ProgramT &program, unsigned workers, unsigned threads);
// Returns the bytes at the peak of a process that has all ranks.
double processPeak(const planfile::ProgramT &program, const cost::HostMachine &host);

// Returns the forecast of `program` on the machine's cluster; fails as simulate() does, and for a program that trains nothing.
support::Result<Forecast> forecast(const planfile::ProgramT &program, const cost::Machine &machine);

// Returns the text and the JSON of llmc trace.
std::string forecastText(const Forecast &forecast, const cost::Machine &machine);
support::OrderedJson forecastJson(const Forecast &forecast);

// Returns the name of an op of a stage, as a trace has it.
std::string nameOf(const planfile::ProgramT &program, const runtime::StageProgram &stage, uint32_t op);

// Writes the events of a forecast for Perfetto, with the lanes and names of a run's --trace.
support::Status writeTrace(const planfile::ProgramT &program, const Forecast &forecast, const std::string &file);

} // namespace llmc::simulate

#endif // LLMC_LIB_SIMULATE_FORECAST_H

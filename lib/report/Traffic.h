// Lists the plan's instructions with how often a step runs them, and its collectives and messages
// with names. Tests: test/planfile/ReportTest.cpp, test/planfile/ExplainTest.cpp.
#ifndef LLMC_LIB_REPORT_TRAFFIC_H
#define LLMC_LIB_REPORT_TRAFFIC_H

#include "lib/planfile/Program.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace llmc::report {

// Identifies one instruction in a procedure of a stage.
struct Site {
  uint32_t stage = 0;
  uint32_t procedure = 0;
  uint32_t index = 0;
  uint64_t times = 0; // executions in a step
};

const planfile::InstructionT &instructionAt(const planfile::ProgramT &program, const Site &site);

// Counts the executions of each procedure of a stage in one step.
std::vector<uint64_t> runsOf(const planfile::StageT &stage);

// Visits all instructions that a step runs, stage by stage, in the order of procedures.
void forEachInstruction(
    const planfile::ProgramT &program,
    const std::function<void(const Site &, const planfile::InstructionT &)> &visit);

// Represents collectives or messages of one rank of a (dp, tp) column that differ in nothing that
// people see. A collective over stages is listed for its lowest stage; groups of one rank are not
// listed.
struct Traffic {
  bool isSend = false;
  std::string name; // "tp/forward/node_addmm_1", "send/0-1"; unique, what `explain` takes
  std::string kind; // "all_reduce", ..., "send"
  std::vector<uint32_t> axes;
  uint32_t stage = 0, toStage = 0;
  uint32_t chunk = 0, toChunk = 0; // of a message between stages
  planfile::Phase phase = planfile::Phase::Forward;
  uint64_t bytes = 0;   // payload of one call on one rank
  uint64_t perStep = 0; // calls, of all sites
  uint32_t origin = 0;  // of the first site
  std::vector<Site> sites;
};
std::vector<Traffic> listTraffic(const planfile::ProgramT &program);

int64_t elementsOf(const std::vector<int64_t> &shape);
// Returns the first source node of an origin, or its operation if the step itself needs it.
std::string originTitle(const planfile::OriginT &origin);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_TRAFFIC_H

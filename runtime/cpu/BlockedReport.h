// Describes where ranks stand, for messages about failures. The test is
// test/runtime/ExecutorTest.cpp (Blocked).
#ifndef LLMC_RUNTIME_CPU_BLOCKEDREPORT_H
#define LLMC_RUNTIME_CPU_BLOCKEDREPORT_H

#include "runtime/cpu/LocalRanks.h"

#include <string>

namespace llmc::runtime {

// Describes `op`, at which a stream of a rank stands.
std::string describe(const planfile::ProgramT &program, const Rank &rank, const Stream &stream,
                     const Op &op);
// Describes the current op of each member of a communicator, of at most 16, a line each. All have
// arrived, so none moves meanwhile.
std::string membersOf(const LocalRanks &ranks, const Communicator &communicator, uint8_t stream);
// Describes where each rank stands when no instruction can run any more.
std::string blockedReport(const LocalRanks &ranks);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_BLOCKEDREPORT_H

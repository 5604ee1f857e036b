// The scripts of --oracle, which are part of the program: it needs no files beside it.
#ifndef LLMC_LIB_VERIFY_ORACLE_ORACLESCRIPTS_H
#define LLMC_LIB_VERIFY_ORACLE_ORACLESCRIPTS_H

#include <string_view>
#include <utility>

namespace llmc::verify {

// Name and text of each file of lib/verify/oracle; the build writes them.
extern const std::pair<const char *, std::string_view> kOracleScripts[2];

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_ORACLE_ORACLESCRIPTS_H

// Embeds the scripts of --oracle in the program, which needs no files beside it. Tested by
// test/verify/OracleTest.cpp.
#ifndef LLMC_LIB_VERIFY_ORACLE_ORACLESCRIPTS_H
#define LLMC_LIB_VERIFY_ORACLE_ORACLESCRIPTS_H

#include <string_view>
#include <utility>

namespace llmc::verify {

// Lists name and text of each Python file of lib/verify/oracle; the build generates it.
extern const std::pair<const char *, std::string_view> kOracleScripts[2];

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_ORACLE_ORACLESCRIPTS_H

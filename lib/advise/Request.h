// Holds what a compilation was asked for, as a program records it, and writes the command of a changed one. Tests:
// test/numerics/priced.py.
#ifndef LLMC_LIB_ADVISE_REQUEST_H
#define LLMC_LIB_ADVISE_REQUEST_H

#include "lib/planfile/Payload.h"
#include "lib/support/Error.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc::advise {

// Names the section of a program (lib/planfile/Payload.h) that has the flags which made its plan: a JSON list of
// [flag, value], or [flag] where it takes none.
inline constexpr std::string_view kRequestSection = "request";

// Holds flags and their values, which are empty where they take none.
using Flags = std::vector<std::pair<std::string, std::string>>;

std::string requestText(const Flags &flags);
// Reads the flags of a program; nullopt if it records none, as one that was compiled from IR.
support::Result<std::optional<Flags>> readRequest(const planfile::Payload &payload);

// Returns the value of a flag; null if it is not there.
const std::string *valueOf(const Flags &flags, std::string_view name);
// Sets a flag at its place, or behind all others; removes it.
void setFlag(Flags &flags, const std::string &name, const std::string &value);
void removeFlag(Flags &flags, std::string_view name);

// Returns "llmc compile MODEL FLAGS ... -o OUTPUT" as a shell takes it.
std::string commandText(const std::string &model, const Flags &flags, const std::string &output);
// Returns "--tp 1 --dp 2".
std::string flagsText(const Flags &flags);

} // namespace llmc::advise

#endif // LLMC_LIB_ADVISE_REQUEST_H

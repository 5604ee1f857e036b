// How a fault of an emitter changes kernels: their functions in the module after phase emit,
// those of every processor alike. Each edit says whether it found its place.
#ifndef LLMC_TEST_VERIFY_CATALOGUE_KERNELEDITS_H
#define LLMC_TEST_VERIFY_CATALOGUE_KERNELEDITS_H

#include "test/verify/catalogue/Edits.h"

namespace llmc::catalogue {

// All of these change the kernels whose names have `kernel` in them.

// Float constants near `number` become `other`.
Edit replaceNumber(std::string kernel, double number, double other);
// Ops of a name become their operand: a root, a conversion.
Edit leaveOutOps(std::string kernel, std::string op, unsigned operand = 0);
// Ops of two operands and one name become others: "arith.subf", "arith.addf".
Edit renameOps(std::string kernel, std::string from, std::string to);
// The terms of sums are lost: a b + c becomes c.
Edit loseProducts(std::string kernel);
// a < b ? b : a becomes a + b.
Edit sumInPlaceOfMaximum(std::string kernel);

} // namespace llmc::catalogue

#endif // LLMC_TEST_VERIFY_CATALOGUE_KERNELEDITS_H

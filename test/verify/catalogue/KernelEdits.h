// Changes kernels as a fault of an emitter would: their functions in the module after phase emit,
// those of every processor alike. Each edit returns whether it changed anything.
#ifndef LLMC_TEST_VERIFY_CATALOGUE_KERNELEDITS_H
#define LLMC_TEST_VERIFY_CATALOGUE_KERNELEDITS_H

#include "test/verify/catalogue/Edits.h"

namespace llmc::catalogue {

// Applies to all edits below: they change the kernels whose names contain `kernel`.

// Replaces float constants within 1e-5 (relative) of `number` by `other`.
Edit replaceNumber(std::string kernel, double number, double other);
// Replaces ops of a name by their operand: a square root, a conversion.
Edit leaveOutOps(std::string kernel, std::string op, unsigned operand = 0);
// Replaces ops of one name by ops of another with the same operands: "arith.subf", "arith.addf".
Edit renameOps(std::string kernel, std::string from, std::string to);
// Drops the products of fused multiply-adds: a b + c becomes c.
Edit loseProducts(std::string kernel);
// Replaces a < b ? b : a by a + b.
Edit sumInPlaceOfMaximum(std::string kernel);

} // namespace llmc::catalogue

#endif // LLMC_TEST_VERIFY_CATALOGUE_KERNELEDITS_H

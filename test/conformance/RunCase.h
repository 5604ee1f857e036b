// Imports a case, evaluates it and compares.
#ifndef LLMC_TEST_CONFORMANCE_RUNCASE_H
#define LLMC_TEST_CONFORMANCE_RUNCASE_H

#include "NodeCase.h"

namespace llmc::test {

enum class Verdict {
  Passed,      // with all inputs as inputs
  Baked,       // with operands that shape the result, and strings, as constants
  Wrong,       // imported, and then other values
  Refused,     // by the importer, with a reason
  Unsupported, // an op that the importer does not know
};

struct Judged {
  std::string name;
  Verdict verdict = Verdict::Wrong;
  std::string reason;  // what is wrong, or the importer's
  std::string folding; // what is wrong with all inputs as constants, or why that is refused
  std::set<std::string> ops;
};

Judged judge(const std::string &path);

// Returns the first difference beyond the suite's tolerance, or "". `got` is rounded to the
// expected type first, for the graph computes in wider ones.
std::string compare(const onnximport::HostTensor &expected, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<double> got);

} // namespace llmc::test

#endif // LLMC_TEST_CONFORMANCE_RUNCASE_H

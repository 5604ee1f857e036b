// Imports a case, evaluates it and compares.
#ifndef LLMC_TEST_CONFORMANCE_RUNCASE_H
#define LLMC_TEST_CONFORMANCE_RUNCASE_H

#include "NodeCase.h"

namespace llmc::test {

enum class Verdict {
  Passed,      // with all inputs as inputs
  Baked,       // with operands that shape the result as constants
  Failed,
  Unsupported, // not of tensors of numbers
};

struct Judged {
  std::string name;
  Verdict verdict = Verdict::Failed;
  std::string reason; // where it failed
  std::string folding; // why it fails with all inputs as constants, if it does
  std::set<std::string> ops;
};

Judged judge(const std::string &path);

// The first difference beyond the suite's tolerance, empty if there is none. `got`
// is rounded to the expected type first: the graph computes in wider ones.
std::string compare(const onnximport::HostTensor &expected, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<double> got);

} // namespace llmc::test

#endif // LLMC_TEST_CONFORMANCE_RUNCASE_H

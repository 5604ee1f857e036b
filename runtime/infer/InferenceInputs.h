// Reads the inputs of one run of inference: .npy files, compared with the plan and converted
// to its types. The test is test/runtime/InferenceTest.cpp.
#ifndef LLMC_RUNTIME_INFER_INFERENCEINPUTS_H
#define LLMC_RUNTIME_INFER_INFERENCEINPUTS_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/support/Npy.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace llmc::runtime {

// Owns the buffer of each input.
class InferenceInputs {
public:
  // Reads NAME -> FILE. Numbers are converted where no value changes its meaning: anything to
  // floats, whole numbers to integers, 0 and 1 to bool. An input that is not given takes the
  // plan's default. Fails with all problems: names that the plan lacks, inputs without a
  // value, wrong shapes, and for each input the first number that does not fit, with its
  // position.
  static support::Result<InferenceInputs>
  open(const planfile::ProgramT &program, const std::map<std::string, std::string> &files);

  // Returns the buffers for Executor::runStep(), by input.
  const std::vector<const std::byte *> &pointers() const { return pointers_; }

  // Returns where each input comes from, one entry an input, for the start-up.
  const std::vector<std::string> &notes() const { return notes_; }

private:
  support::Status read(const planfile::InputBindingT &input, const std::string &path,
                       std::vector<std::byte> &buffer);
  support::Status useDefault(const planfile::ProgramT &program,
                             const planfile::InputBindingT &input, std::vector<std::byte> &buffer);

  std::vector<std::vector<std::byte>> buffers_; // by input
  std::vector<const std::byte *> pointers_;
  std::vector<std::string> notes_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_INFER_INFERENCEINPUTS_H

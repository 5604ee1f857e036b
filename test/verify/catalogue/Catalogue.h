// Named faults that a compiler could have, each by the phase that makes it. To add one, add
// a line to the file of its phase (or a file, and its function here and in Main.cpp).
#ifndef LLMC_TEST_VERIFY_CATALOGUE_CATALOGUE_H
#define LLMC_TEST_VERIFY_CATALOGUE_CATALOGUE_H

#include "lib/pipeline/Phases.h"
#include "test/verify/catalogue/Edits.h"

#include <string>
#include <vector>

namespace llmc::catalogue {

struct Fault {
  const char *name;
  const char *model;    // "gpt2" or "llama": small configs; "tiny": an ONNX file with weights
  const char *mesh;     // dp x pp x tp
  Phase phase;          // after which the edit is made, in every compilation
  const char *expected; // how the name of the check begins that finds it; "refused"; "below"; "oracle":
                        // only the model's own file says it
  Edit edit;
};

std::vector<Fault> importFaults();
std::vector<Fault> raiseFaults();
std::vector<Fault> trainFaults(); // loss and gradients
std::vector<Fault> optimizerFaults();
std::vector<Fault> shardFaults();
std::vector<Fault> partitionFaults();
std::vector<Fault> scheduleFaults();
std::vector<Fault> kernelFaults();

} // namespace llmc::catalogue

#endif // LLMC_TEST_VERIFY_CATALOGUE_CATALOGUE_H

// Lists named faults that a compiler could have, by the phase that makes them. To add one, add a
// line to the file of its phase (or a file, and its function here and in Main.cpp).
#ifndef LLMC_TEST_VERIFY_CATALOGUE_CATALOGUE_H
#define LLMC_TEST_VERIFY_CATALOGUE_CATALOGUE_H

#include "lib/options/Phases.h"
#include "test/verify/catalogue/Edits.h"

#include <string>
#include <vector>

namespace llmc::catalogue {

struct Fault {
  const char *name;
  const char *model;    // "gpt2" or "llama": small configs; "tiny": an ONNX file with weights
  const char *mesh;     // dp x pp x tp (x cp)
  Phase phase;          // after which the edit is made, in every compilation
  // Identifies the check that must find the fault by the beginning of its name; or "refused",
  // "below", or "oracle" if only a comparison with the model's own file finds it.
  const char *expected;
  Edit edit;
  // Names a low precision, in which steps that are not finite are skipped; null: f32.
  const char *precision = nullptr;
  // Names what backward computes again, where tensor ranks share out the sequence; null: nothing, and
  // sequences are whole.
  const char *recompute = nullptr;
  int rows = 1; // of a micro-batch
};

std::vector<Fault> importFaults();
std::vector<Fault> raiseFaults();
std::vector<Fault> trainFaults(); // loss and gradients
std::vector<Fault> optimizerFaults();
std::vector<Fault> shardFaults();
std::vector<Fault> partitionFaults();
std::vector<Fault> sequenceFaults(); // shared sequences, and what runs again
std::vector<Fault> ringFaults();
std::vector<Fault> scheduleFaults();
std::vector<Fault> kernelFaults();
std::vector<Fault> typeFaults();

} // namespace llmc::catalogue

#endif // LLMC_TEST_VERIFY_CATALOGUE_CATALOGUE_H

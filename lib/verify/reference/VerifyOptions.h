// Declares what a user of `llmc verify` chooses. Tested by test/numerics/verify.py and
// test/numerics/twin.py.
#ifndef LLMC_LIB_VERIFY_REFERENCE_VERIFYOPTIONS_H
#define LLMC_LIB_VERIFY_REFERENCE_VERIFYOPTIONS_H

#include "lib/options/Options.h"
#include "lib/options/Phases.h"
#include "lib/support/Progress.h"
#include "lib/verify/subject/Subject.h"

#include <optional>
#include <string>

namespace llmc::verify {

// Selects when a scaled-down model (lib/verify/scaled/ScaledDownModel.h) is verified in place of
// the plan: if the model does not fit here, always, never.
enum class ScaledDownMode { Auto, On, Off };

// Holds the choices of one verification.
struct VerifyOptions {
  CompileOptions compile; // compile.model may be the dump of a phase boundary
  std::optional<Phase> after; // checks this phase boundary alone
  uint64_t seed = 1;
  ScaledDownMode twin = ScaledDownMode::Auto;
  ModelReplacement modelReplacement; // replaces compile.model, unless null
  bool shapes = true; // also runs each kernel alone, at its real sizes
  unsigned interleavings = 0; // number of runs in drawn orders
  std::string oracle; // Python that runs the model's own file (oracle/Oracle.h); empty: none
  support::Progress *progress = nullptr; // receives progress; may be null
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_REFERENCE_VERIFYOPTIONS_H

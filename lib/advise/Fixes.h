// Finds the single changes of a plan's choices that remove a collective or message, make it smaller or hide it, and
// predicts the step and the memory of each changed plan. Tests: test/numerics/priced.py.
#ifndef LLMC_LIB_ADVISE_FIXES_H
#define LLMC_LIB_ADVISE_FIXES_H

#include "lib/advise/Request.h"
#include "lib/options/Options.h"
#include "lib/predict/PriceOptions.h"
#include "lib/predict/RaisedModels.h"
#include "lib/report/PlanIndex.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace llmc::advise {

// Describes how a program was compiled, for what cluster it is to be predicted, and how flags become options.
struct Subject {
  std::string model, output;    // files: what was compiled; the program
  Flags flags;                  // that it was compiled with
  Flags cluster;                // that name the cluster, for commands
  predict::PriceOptions prices; // the same
  std::function<std::optional<CompileOptions>(const Flags &)> parse; // nullopt: the flags are refused
};

// Holds what is predicted of a plan: by the table of its model, or on processors that were measured by its simulation.
struct Predicted {
  double step = 0, peak = 0; // seconds; bytes of the worst stage, or of the process that has all ranks
  bool fits = true;
  CompileOptions options;
};

struct Fix {
  Flags changes; // the first is the choice that is meant; others follow from it
  Flags flags;   // of the whole changed plan
  double step = 0, peak = 0;   // of the changed plan
  double saves = 0, memory = 0; // seconds less, bytes more than the plan takes
  std::vector<std::string> removes; // names of collectives and messages that are gone then
};

class Advisor {
public:
  // Borrows all that it is given. `book` is of a program that trains.
  Advisor(mlir::MLIRContext &context, const report::PlanIndex &book, const Subject &subject);

  // Returns what is predicted of the program itself; null if its model is refused: whyNot() then tells.
  const Predicted *now() const { return now_ ? &*now_ : nullptr; }
  const std::string &whyNot() const { return whyNot_; }

  // Returns what could be changed for a collective or message, and the least costly first; without plans that do not fit
  // the memory of an accelerator, and those that are refused.
  std::vector<Fix> fixesFor(const report::Traffic &t);
  // Returns the same for all of them.
  std::vector<Fix> fixesForAll();
  // Returns what these changes do; nullopt where the plan is refused or does not fit.
  std::optional<Fix> judge(const Flags &changes);

private:
  std::optional<Predicted> predict(const Flags &flags);
  const std::optional<Predicted> &predictOnce(const Flags &flags);

  const report::PlanIndex &book_;
  const Subject &subject_;
  predict::RaisedModels models_;
  Flags flags_; // of the subject, with all sizes of the mesh and the batch
  std::optional<Predicted> now_;
  std::string whyNot_;
  std::map<Flags, std::optional<Predicted>> known_;
};

// Adds to a priced answer of explainJson() about all traffic, one collective or the schedule: to its `prediction` {step_s,
// peak_bytes}, which fixes are compared with, fixes [{command, flag, value, changes {flag: value}, saves_s, step_s,
// memory_bytes (change of the peak), peak_bytes, rounds (sums of gradients are rounded otherwise), removes [names]}] (none
// of the schedule), and to alternatives that a flag makes saves_s and peak_change_bytes; where nothing can be predicted
// `no_fixes` says why.
void addFixes(nlohmann::json &answer, mlir::MLIRContext &context, const report::PlanIndex &book, const Subject &subject);

} // namespace llmc::advise

#endif // LLMC_LIB_ADVISE_FIXES_H

// Describes the mixtures of experts of a plan, and what moves their rows. Tests: test/numerics/experts.py.
#ifndef LLMC_LIB_REPORT_EXPERTS_H
#define LLMC_LIB_REPORT_EXPERTS_H

#include "lib/report/PlanIndex.h"

namespace llmc::report {

// Counts the experts of a layer: of all ranks of ep together, and of one. Zeros without mixtures.
struct ExpertCount {
  int64_t all = 0, own = 0;
};
// Counts them by the products of routed rows.
ExpertCount countExperts(const planfile::ProgramT &program);

// Lists what could replace an exchange of rows, with its cost: a smaller and a larger --ep. Shares of rows are those
// of routers that spread them evenly; bytes of states those that a rank of this stage has.
nlohmann::json expertAlternatives(const PlanIndex &book, const Traffic &t);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_EXPERTS_H

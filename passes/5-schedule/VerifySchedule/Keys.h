// Checks that ranks of a ring never hold the keys of a whole row. Test:
// test/passes/5-schedule/verify-schedule-invalid.mlir.
#ifndef LLMC_PASSES_SCHEDULE_VERIFYSCHEDULE_KEYS_H
#define LLMC_PASSES_SCHEDULE_VERIFYSCHEDULE_KEYS_H

#include "dialects/plan/Plan.h"

namespace llmc {

// Checks V6 of a stage whose plan has `cp_kind` ring: each attention has as many keys as rows. Fails with
// an error for each that has more.
mlir::LogicalResult verifyRingKeys(plan::StageOp stage);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_VERIFYSCHEDULE_KEYS_H

// Finds buffers that hold a mask of dropout. Test: test/passes/5-schedule/verify-schedule-invalid.mlir.
#ifndef LLMC_PASSES_SCHEDULE_VERIFYSCHEDULE_MASKS_H
#define LLMC_PASSES_SCHEDULE_VERIFYSCHEDULE_MASKS_H

#include "dialects/plan/Plan.h"

namespace llmc {

// Emits an error for each launch that writes what dropout drew without data in it (V5). Masks are
// drawn where they are needed: kept ones would cost memory, and readers that draw need them not.
mlir::LogicalResult verifyNoMasks(plan::StageOp stage);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_VERIFYSCHEDULE_MASKS_H

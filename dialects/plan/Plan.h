// Declares the `plan` dialect (README.md; test/dialects/plan/).
#ifndef LLMC_DIALECTS_PLAN_PLAN_H
#define LLMC_DIALECTS_PLAN_PLAN_H

#include "dialects/parallel/Parallel.h"

#include "dialects/plan/PlanEnums.h.inc"

#include "dialects/plan/PlanDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.h.inc"

#endif // LLMC_DIALECTS_PLAN_PLAN_H

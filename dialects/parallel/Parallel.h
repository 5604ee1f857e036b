// Declares the `parallel` dialect (README.md; test/dialects/parallel/).
#ifndef LLMC_DIALECTS_PARALLEL_PARALLEL_H
#define LLMC_DIALECTS_PARALLEL_PARALLEL_H

#include "dialects/graph/Graph.h"
#include "lib/planfile/MeshAxes.h"

#include "dialects/parallel/ParallelDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/parallel/ParallelAttrs.h.inc"

#include "dialects/parallel/ParallelInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/parallel/ParallelOps.h.inc"

#endif // LLMC_DIALECTS_PARALLEL_PARALLEL_H

// Verifies models, meshes, batches and schedules that are drawn from a seed (`llmc verify`
// without a model). Tested by test/numerics/verify.py (draws).
#ifndef LLMC_LIB_VERIFY_DRAWS_H
#define LLMC_LIB_VERIFY_DRAWS_H

#include "lib/verify/Verify.h"

namespace llmc::verify {

// Verifies `count` drawn configurations of five model families, trained or, with `infer`, run
// once. The report keeps, for each name of a check, the check nearest to its limit and every one
// that failed, its subject prefixed by the number of the draw. Appends one line a draw to `log`;
// a configuration that the compiler refuses is logged with the reason and counted, but fails no
// check; one that compiles and cannot be verified fails the check draws:verified. Fails with a
// diagnostic only if the files of a draw cannot be written.
mlir::FailureOr<Report> verifyDraws(mlir::MLIRContext &context, uint64_t seed, int64_t count,
                                    bool infer, std::string &log,
                                    support::Progress *progress = nullptr);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_DRAWS_H

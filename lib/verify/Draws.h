// Models, meshes, batches and schedules drawn from a seed, each verified.
#ifndef LLMC_LIB_VERIFY_DRAWS_H
#define LLMC_LIB_VERIFY_DRAWS_H

#include "lib/verify/Verify.h"

namespace llmc::verify {

// Verifies `count` drawn configurations of five families, trained or (`infer`) run once. The report holds per name of a
// check the one nearest to its limit (or failed), with the draw in `subject`, and
// a line a draw in `log`; a refusal is logged with its reason and fails nothing.
// Fails only if a draw's files cannot be written.
mlir::FailureOr<Report> verifyDraws(mlir::MLIRContext &context, uint64_t seed, int64_t count,
                                    bool infer, std::string &log,
                                    support::Progress *progress = nullptr);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_DRAWS_H

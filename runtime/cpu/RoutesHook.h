// Shows routes to the caller of an Executor as they are written, who may change them: to dump those of a step
// (RouteRecorder.h), or to verify kernels on the routes of a reference (lib/verify/routes). The test is
// test/runtime/ExecutorTest.cpp (RoutesAreShown).
#ifndef LLMC_RUNTIME_CPU_ROUTESHOOK_H
#define LLMC_RUNTIME_CPU_ROUTESHOOK_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace llmc::runtime {

struct WrittenRoutes {
  const planfile::RoutesT &of;
  planfile::Phase phase; // Backward: the forward is computed again
  const std::vector<uint32_t> &coordinate; // of the rank
  uint32_t microBatch;
  const float *scores, *bias; // by which the launch chose; null where it limits, or there is none
  int64_t *routes;            // of the rank, dense in Routes.local_shape
};

// Runs right after such a launch. Workers call it at the same time, for different ranks.
using RoutesHook = std::function<void(const WrittenRoutes &)>;

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_ROUTESHOOK_H

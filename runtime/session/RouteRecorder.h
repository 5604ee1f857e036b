// Records the experts that tokens took in the last step, for --dump. Tests: test/numerics/routes.py.
#ifndef LLMC_RUNTIME_SESSION_ROUTERECORDER_H
#define LLMC_RUNTIME_SESSION_ROUTERECORDER_H

#include "lib/planfile/Routes.h"
#include "runtime/cpu/RoutesHook.h"

#include <map>
#include <string>
#include <vector>

namespace llmc::runtime {

class RouteRecorder {
public:
  // Holds the experts of each choice of a step, -1 for one that none takes.
  struct Step {
    std::vector<int64_t> shape; // [rows, tokens, choices]
    std::vector<int32_t> experts;
  };

  // Takes both plans of a run; `retry` may be null.
  RouteRecorder(const planfile::ProgramT &program, const planfile::ProgramT *retry);

  // Returns what the executors of both plans show routes to; the recorder must outlive them.
  RoutesHook hook();
  // Keeps what was seen since the last call: the step counts.
  void keepStep();
  // Returns the last step that counts, by router; empty before the first.
  const std::map<std::string, Step> &last() const { return last_; }

private:
  void addPlan(const planfile::ProgramT &program);
  void record(const WrittenRoutes &written);

  // Describes the routes of one launch of a plan.
  struct Source {
    planfile::RoutesLayout layout;
    const planfile::ProgramT *program;
    std::vector<int32_t> *to;
  };
  std::map<const planfile::RoutesT *, Source> sources_; // those of launches that are recorded
  std::map<std::string, Step> current_, last_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_ROUTERECORDER_H

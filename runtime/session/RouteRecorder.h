// Records the experts that tokens took in the last step, for --dump, and counts the rows of each, for --metrics.
// Tests: test/numerics/routes.py.
#ifndef LLMC_RUNTIME_SESSION_ROUTERECORDER_H
#define LLMC_RUNTIME_SESSION_ROUTERECORDER_H

#include "lib/planfile/Routes.h"
#include "runtime/cpu/RoutesHook.h"

#include <map>
#include <mutex>
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

  // Takes both plans of a run; `retry` may be null. Unless it `keeps` the experts of each choice, it has memory
  // for counts alone.
  RouteRecorder(const planfile::ProgramT &program, const planfile::ProgramT *retry, bool keeps);

  // Returns what the executors of both plans show routes to; the recorder must outlive them. Empty where no plan
  // has routes.
  RoutesHook hook();
  // Starts counting anew: of a step that is run again, the attempt that counts.
  void beginAttempt();
  // Returns the rows of the expert that got most since beginAttempt(), by the average of its router's experts, of
  // the router where that is largest; 0 without experts, or rows. All micro-batches and ranks count together.
  double largestLoad() const;
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
    std::vector<int32_t> *to; // null: they are not kept
    std::vector<uint64_t> *rows;
  };
  bool keeps_;
  std::map<const planfile::RoutesT *, Source> sources_; // those of launches that are recorded
  std::map<std::string, Step> current_, last_;
  std::mutex rowsMutex_;
  std::map<std::string, std::vector<uint64_t>> rows_; // by router and expert
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_ROUTERECORDER_H

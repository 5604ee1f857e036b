// Lets a plan take the routes of a reference in the place of its own where these are near-ties: roundings decide
// them, and all that follows would differ though nothing is wrong. Tests: test/verify/RouteReplayTest.cpp.
#ifndef LLMC_LIB_VERIFY_ROUTES_ROUTEREPLAY_H
#define LLMC_LIB_VERIFY_ROUTES_ROUTEREPLAY_H

#include "lib/planfile/Routes.h"
#include "lib/verify/routes/NearTie.h"
#include "lib/verify/steps/Training.h"
#include "runtime/cpu/RoutesHook.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace llmc::verify {

class RouteReplay {
public:
  // Tells what became of the choices that a plan made; a near-tie is one whose gap is at most a share of the
  // token's largest score.
  struct Result {
    uint64_t choices = 0, replayed = 0;
    double gap = 0;                      // the largest share, of choices that differ from the reference's
    std::vector<std::string> faults;     // the first choices that are no near-ties
    // Returns "3 of 768 choices replayed".
    std::string text() const;
  };

  // Takes the routes `wanted` of each step, for the plan `program`; both must outlive it.
  RouteReplay(const planfile::ProgramT &program, const std::vector<ChosenRoutes> &wanted, double ties);

  // Returns what an executor of the plan shows routes to.
  runtime::RoutesHook hook();
  // Tells which step comes next; of one that `wanted` lacks nothing is looked at.
  void beginStep(size_t step) { step_ = step; }
  const Result &result() const { return result_; }
  // Returns whether the plan has routers.
  bool hasRouters() const { return !layouts_.empty(); }

private:
  // Describes the choices of one token.
  struct Token {
    const runtime::WrittenRoutes &written;
    int64_t row, place;
    std::span<const float> scores; // with their bias
    std::span<const int32_t> wanted;
    std::span<int64_t> chosen;
  };
  void replay(const runtime::WrittenRoutes &written);
  void replayToken(const Token &token, Result &seen) const;
  void add(const Result &seen);
  std::string describe(const Token &token, const TieGap &gap, bool isOwn) const;

  const planfile::ProgramT &program_;
  const std::vector<ChosenRoutes> &wanted_;
  double ties_;
  size_t step_ = 0;
  std::map<const planfile::RoutesT *, planfile::RoutesLayout> layouts_; // of launches that choose
  std::mutex mutex_;
  Result result_;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_ROUTES_ROUTEREPLAY_H

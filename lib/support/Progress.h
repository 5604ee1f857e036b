// Shows the progress of long work: one line that is redrawn on a terminal, plain lines elsewhere.
// Tests: test/runtime/ProgressTest.cpp.
#ifndef LLMC_LIB_SUPPORT_PROGRESS_H
#define LLMC_LIB_SUPPORT_PROGRESS_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>

namespace llmc::support {

enum class Verbosity : uint8_t { Quiet, Normal, Verbose };

// Formats seconds: 75 -> "1:15", 3700 -> "1:01:40".
std::string durationText(double seconds);

// Returns whether the descriptor is a terminal that can rewrite a line.
bool isTerminal(int descriptor);

// Shows the phases under way on `out`. All other output to `out` meanwhile must go through
// print(), since a thread of this object redraws the line. Calls may come from any thread.
class Progress {
public:
  using Clock = std::function<double()>; // seconds

  // Sets how phases are shown. `terminal`: `out` is one (isTerminal). Quiet: only warn() writes.
  // Verbose: each phase prints when it ends how long it took. With a clock (a test's) there is no
  // thread, and the owner calls tick().
  Progress(std::ostream &out, bool terminal, Verbosity verbosity, Clock clock = {});
  Progress(const Progress &) = delete;
  ~Progress(); // clears the line

  // Represents work under way from construction to end(); phases may overlap. If `out` is no
  // terminal a phase writes nothing for its first two seconds, then ever fewer lines.
  class Phase {
  public:
    Phase(Progress &progress, std::string name, uint64_t total = 0); // 0: not known
    Phase(const Phase &) = delete;
    ~Phase() { end(); }
    void add(uint64_t done) { done_.fetch_add(done, std::memory_order_relaxed); }
    void reach(uint64_t done) { done_ = done; }
    void expect(uint64_t total) { total_ = total; }
    // Replaces name, share and time left by the owner's text, on a terminal; elsewhere the phase
    // then writes nothing, as its owner writes lines.
    void show(std::string text);
    void end();

  private:
    friend class Progress;
    Progress &progress_;
    std::string name_, text_;
    bool ownText_ = false, ended_ = false;
    std::atomic<uint64_t> done_{0}, total_;
    double begin_, nextLine_, interval_;
  };

  // Prints a line that stays, above the redrawn one; nothing if quiet.
  void print(std::string_view line);
  // Prints a line about something that went wrong, also if quiet.
  void warn(std::string_view line);
  // Redraws what is due; the thread of this object calls it.
  void tick();
  bool terminal() const { return terminal_; }
  Verbosity verbosity() const { return verbosity_; }

private:
  void run();
  void draw(double now, bool force);
  void clear();
  std::string lineOf(const Phase &phase, double now) const;

  std::ostream &out_;
  const bool terminal_;
  const Verbosity verbosity_;
  const bool ownClock_;
  const Clock clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Phase *> phases_; // in the order of their beginning
  std::string drawn_;         // text of the redrawn line; empty if there is none
  double lastDraw_ = 0;
  bool stop_ = false;
  std::thread thread_; // made with the first phase
};

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_PROGRESS_H

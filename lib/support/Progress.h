// How far long work is: one line that lives on a terminal, plain lines elsewhere.
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

// 75 -> "1:15", 3700 -> "1:01:40".
std::string durationText(double seconds);

// Is the descriptor a terminal that can rewrite a line?
bool isTerminal(int descriptor);

// All that goes to `out` while phases are under way goes through print(), since a
// thread of this object redraws the line. Calls may come from any thread.
class Progress {
public:
  using Clock = std::function<double()>; // seconds

  // `terminal`: `out` is one (isTerminal). Quiet: only what warn() says is written. Verbose:
  // each phase says when it ends how long it took. With a clock (a test's) there is
  // no thread: tick() does its work.
  Progress(std::ostream &out, bool terminal, Verbosity verbosity, Clock clock = {});
  Progress(const Progress &) = delete;
  ~Progress(); // clears the line

  // Work under way from its making to its end; phases may overlap. Elsewhere than on
  // a terminal it writes nothing for its first two seconds, then ever fewer lines.
  class Phase {
  public:
    Phase(Progress &progress, std::string name, uint64_t total = 0); // 0: not known
    Phase(const Phase &) = delete;
    ~Phase() { end(); }
    void add(uint64_t done) { done_.fetch_add(done, std::memory_order_relaxed); }
    void reach(uint64_t done) { done_ = done; }
    void expect(uint64_t total) { total_ = total; }
    // The owner's own words in place of name, share and time left, on a terminal;
    // elsewhere the phase then writes nothing, as its owner writes lines.
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

  // A line that stays, above the living one; nothing if quiet.
  void print(std::string_view line);
  // A line about something that went wrong, also if quiet.
  void warn(std::string_view line);
  // Redraws what is due; its thread calls it.
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
  std::string drawn_;         // what stands on the terminal
  double lastDraw_ = 0;
  bool stop_ = false;
  std::thread thread_; // made with the first phase
};

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_PROGRESS_H

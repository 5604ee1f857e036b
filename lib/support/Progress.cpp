#include "lib/support/Progress.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace llmc::support;

namespace {

constexpr double kRedraw = 0.2;    // seconds between two looks at the terminal
constexpr double kFirstLine = 2.0; // seconds that a phase takes before it is worth a line
constexpr double kLongestPause = 60.0;

double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace

std::string llmc::support::durationText(double seconds) {
  char buffer[48];
  auto whole = static_cast<long>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  if (whole >= 3600)
    std::snprintf(buffer, sizeof buffer, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  else
    std::snprintf(buffer, sizeof buffer, "%ld:%02ld", whole / 60, whole % 60);
  return buffer;
}

bool llmc::support::isTerminal(int descriptor) {
  const char *kind = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && !(kind && std::string_view(kind) == "dumb");
}

Progress::Progress(std::ostream &out, bool terminal, Verbosity verbosity, Clock clock)
    : out_(out), terminal_(terminal), verbosity_(verbosity), ownClock_(!clock),
      clock_(clock ? std::move(clock) : steadySeconds) {
  lastDraw_ = clock_();
}

Progress::~Progress() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    clear();
    out_.flush();
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

Progress::Phase::Phase(Progress &progress, std::string name, uint64_t total)
    : progress_(progress), name_(std::move(name)), total_(total), begin_(progress.clock_()),
      nextLine_(begin_ + kFirstLine), interval_(kFirstLine) {
  std::lock_guard lock(progress.mutex_);
  progress.phases_.push_back(this);
  if (progress.verbosity_ == Verbosity::Quiet || !progress.ownClock_)
    return;
  if (!progress.thread_.joinable())
    progress.thread_ = std::thread([&progress] { progress.run(); });
  progress.wake_.notify_all();
}

void Progress::Phase::show(std::string text) {
  std::lock_guard lock(progress_.mutex_);
  text_ = std::move(text);
  ownText_ = true;
}

void Progress::Phase::end() {
  if (ended_)
    return;
  ended_ = true;
  Progress &p = progress_;
  double now = p.clock_();
  std::lock_guard lock(p.mutex_);
  p.phases_.remove(this);
  if (p.verbosity_ == Verbosity::Verbose) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "  %.2f s", now - begin_);
    p.clear();
    p.out_ << name_ << seconds << std::endl;
  }
  // Redraws the line, which still shows this phase.
  if (!p.drawn_.empty())
    p.draw(now, /*force=*/true);
}

void Progress::print(std::string_view line) {
  if (verbosity_ != Verbosity::Quiet)
    warn(line);
}

void Progress::warn(std::string_view line) {
  std::lock_guard lock(mutex_);
  bool stood = !drawn_.empty();
  clear();
  out_ << line << std::endl;
  if (stood)
    draw(clock_(), /*force=*/true);
}

void Progress::clear() {
  if (!drawn_.empty())
    out_ << "\r\033[K";
  drawn_.clear();
}

std::string Progress::lineOf(const Phase &phase, double now) const {
  if (phase.ownText_)
    return phase.text_;
  uint64_t done = phase.done_, total = phase.total_;
  double spent = now - phase.begin_;
  std::string line = phase.name_;
  if (total > 0) {
    done = std::min(done, total);
    char share[16];
    std::snprintf(share, sizeof share, "  %2.0f %%", 100.0 * double(done) / double(total));
    line += share;
    if (done > 0 && spent >= 0.5)
      line += "  left " + durationText(spent / double(done) * double(total - done));
  } else if (spent >= 1) {
    line += "  " + durationText(spent);
  }
  return line;
}

void Progress::draw(double now, bool force) {
  if (!terminal_ || (!force && now - lastDraw_ < kRedraw))
    return;
  std::string line;
  for (const Phase *phase : phases_)
    if (std::string part = lineOf(*phase, now); !part.empty())
      line += (line.empty() ? "" : "  |  ") + part;
  lastDraw_ = now;
  if (line == drawn_)
    return;
  clear();
  // Disables automatic wrapping: a line that is too long then loses its end; wrapped, its first
  // part could not be cleared.
  if (!line.empty())
    out_ << "\033[?7l" << line << "\033[?7h";
  drawn_ = line;
  out_ << std::flush;
}

void Progress::tick() {
  if (verbosity_ == Verbosity::Quiet)
    return;
  std::lock_guard lock(mutex_);
  double now = clock_();
  draw(now, /*force=*/false);
  for (Phase *phase : phases_)
    if (!terminal_ && !phase->ownText_ && now >= phase->nextLine_) {
      out_ << lineOf(*phase, now) << std::endl;
      phase->interval_ = std::min(2 * phase->interval_, kLongestPause);
      phase->nextLine_ = now + phase->interval_;
    }
}

void Progress::run() {
  auto pause = std::chrono::duration<double>(kRedraw);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (phases_.empty()) {
      wake_.wait(lock);
      continue;
    }
    wake_.wait_for(lock, pause);
    if (stop_)
      break;
    lock.unlock();
    tick();
    lock.lock();
  }
}

// Distributes launches and products in all regimes over threads and reports the worst of each
// regime.
#include "lib/verify/kernels/Shapes.h"

#include "lib/support/Counted.h"
#include "lib/verify/subject/ProgressPhase.h"
#include "lib/verify/kernels/RunLaunch.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/cpu/Arena.h"

#include <atomic>
#include <condition_variable>
#include <cmath>
#include <mutex>
#include <thread>

namespace llmc::verify {

using support::counted;
using support::text;

namespace {

constexpr double kSampleFlops = 1e6;
constexpr size_t kFindingsAtMost = 20;

// Describes one run of a kernel in one regime.
struct Task {
  const LaunchCase *launch;
  const ProductCase *product;
  NumberRegime regime;
  size_t variant = 0;
  double seconds = 0;
  CaseResult finding = {};

  // Returns the weight for progress, in milliseconds.
  uint64_t weight() const { return static_cast<uint64_t>(seconds * 1e3) + 1; }
  double bytes() const { return launch ? launch->bytes() : product->bytes(); }
  const std::string &name() const { return launch ? launch->name() : product->name(); }
};

// Lets tasks run together as far as their memory goes: one alone always may.
class MemoryGate {
public:
  explicit MemoryGate(double most) : most(most) {}
  void enter(double bytes) {
    std::unique_lock lock(mutex);
    left.wait(lock, [&] { return taken == 0 || taken + bytes <= most; });
    taken += bytes;
  }
  void leave(double bytes) {
    std::lock_guard lock(mutex);
    taken -= bytes;
    left.notify_all();
  }

private:
  double most, taken = 0;
  std::mutex mutex;
  std::condition_variable left;
};

class ShapesCheck {
public:
  ShapesCheck(const Subject &subject, uint64_t seed, uint64_t mostBytes)
      : kernels(*subject.kernels), noise(seed), work(listWork(*subject.emitted, *subject.program)) {
    std::string why;
    library = runtime::MatmulLibrary::open(why);
    for (const DistinctLaunch &launch : work.launches)
      launches.emplace_back(launch, kSampleFlops, mostBytes);
    for (const DistinctProduct &product : work.products)
      products.emplace_back(product, library.get());
    list();
  }

  uint64_t weight() const; // the weight of all tasks
  // Runs all tasks; calls `done` with the weight of each after it, from any thread.
  void run(const std::function<void(uint64_t)> &done);
  void report(Report &report) const;

private:
  void list();
  void report(NumberRegime regime, Report &report) const;

  const runtime::Kernels &kernels;
  Noise noise;
  DistinctWork work;
  std::unique_ptr<runtime::MatmulLibrary> library;
  std::vector<LaunchCase> launches;
  std::vector<ProductCase> products;
  std::vector<Task> tasks;
};

} // namespace

void ShapesCheck::list() {
  for (NumberRegime regime : kRegimes) {
    for (const LaunchCase &launch : launches)
      for (size_t v = 0; v < (regime == NumberRegime::Usual ? launch.variants() : 1); ++v)
        if (launch.has(regime))
          tasks.push_back({&launch, nullptr, regime, v, launch.seconds()});
    for (const ProductCase &product : products)
      if (regime != NumberRegime::Masked)
        tasks.push_back({nullptr, &product, regime, 0, product.seconds()});
  }
}

uint64_t ShapesCheck::weight() const {
  uint64_t sum = 0;
  for (const Task &task : tasks)
    sum += task.weight();
  return sum;
}

void ShapesCheck::run(const std::function<void(uint64_t)> &done) {
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  if (library)
    library->finish(threads);
  CaseContext setting{kernels, noise, library.get()};
  // Start long tasks first, so that no thread ends late with one.
  std::vector<size_t> order(tasks.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  llvm::stable_sort(order, [&](size_t a, size_t b) { return tasks[a].seconds > tasks[b].seconds; });
  std::atomic<size_t> next{0};
  constexpr double kKept = 1 << 28; // bytes that a thread keeps from one task to the next
  MemoryGate gate(double(runtime::availableMemory()) / 2);
  auto help = [&](unsigned thread) {
    ScratchMapping arena;
    for (size_t i; (i = next++) < order.size();) {
      Task &task = tasks[order[i]];
      uint64_t stream = order[i] + 1;
      gate.enter(task.bytes());
      task.finding = task.launch
                         ? task.launch->run(setting, arena, task.regime, task.variant, stream)
                         : task.product->run(setting, arena, task.regime, thread, stream);
      if (task.bytes() > kKept)
        arena.release();
      gate.leave(task.bytes());
      done(task.weight());
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned thread = 1; thread < threads; ++thread)
    helpers.emplace_back(help, thread);
  help(0);
  for (std::thread &helper : helpers)
    helper.join();
}

void ShapesCheck::report(NumberRegime regime, Report &report) const {
  std::vector<const Task *> found;
  for (const Task &task : tasks)
    if (task.regime == regime)
      found.push_back(&task);
  if (found.empty())
    return;
  llvm::stable_sort(
      found, [](const Task *a, const Task *b) { return a->finding.ratio > b->finding.ratio; });
  std::string note;
  size_t wrong = 0;
  for (const Task *task : found)
    if (!(task->finding.ratio <= 1) && wrong++ < kFindingsAtMost)
      note += task->name() + ": " + task->finding.problem + "\n";
  if (wrong > kFindingsAtMost)
    note += text(wrong - kFindingsAtMost, " more\n");
  std::string name =
      regime == NumberRegime::Usual ? "kernels:shapes" : "ranges:" + std::string(toString(regime));
  auto silent = llvm::count_if(found, [](const Task *task) { return !task->finding.judged; });
  std::string without = silent ? text(", ", silent, " without a limit on any element") : "";
  report.add(name, text(found.front()->name(), ", of ", counted(found.size(), "run"), without),
             found.front()->finding.ratio, 1, note);
}

void ShapesCheck::report(Report &report) const {
  for (NumberRegime regime : kRegimes)
    this->report(regime, report);
}

void checkShapes(const Subject &subject, uint64_t seed, Report &report,
                 support::Progress *progress, uint64_t mostBytes) {
  std::optional<ProgressPhase> doing(std::in_place, progress, "list kernels");
  ShapesCheck check(subject, seed, mostBytes);
  doing.emplace(progress, "kernels at their sizes", check.weight());
  check.run([&](uint64_t weight) { doing->add(weight); });
  check.report(report);
}

} // namespace llmc::verify

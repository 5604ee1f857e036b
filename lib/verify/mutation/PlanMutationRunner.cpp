// Forks one child per share of the mutants and restarts it behind the mutant that ended it.
#include "lib/verify/mutation/PlanMutationRunner.h"

#include "lib/planfile/Check.h"
#include "lib/verify/mutation/KernelSymmetry.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace llmc::verify {

using planfile::ProgramT;

namespace {

// Bounds the time of a mutant, whose step takes milliseconds.
constexpr unsigned kHangSeconds = 20;

void put(char (&to)[96], const std::string &text) { std::strncpy(to, text.c_str(), sizeof to - 1); }

// Returns whether the statistics of detection by numbers alone include the fault.
bool numbersMatter(Fault fault) {
  return fault == Fault::Drop || fault == Fault::Group || fault == Fault::Scale;
}

} // namespace

struct PlanMutationRunner::Record {
  bool begun = false, done = false, running = false;
  char overwriter[96] = {}, reason[96] = {}, numbers[96] = {};
};

namespace {

using Check = std::vector<planfile::Finding> (*)(const ProgramT &);
constexpr std::pair<std::string_view, Check> kCheckers[] = {
    {"collectives", planfile::checkCollectives},
    {"launch-order", planfile::checkLaunchOrder},
    {"happens-before", planfile::checkHappensBefore},
    {"tensors", planfile::checkTensors},
    {"updates", planfile::checkUpdates},
    {"conservation", planfile::checkConservation},
    {"memory", planfile::checkMemory},
};

} // namespace

std::vector<std::string_view> staticCheckers() {
  std::vector<std::string_view> names = {"bounds"};
  for (auto [name, check] : kCheckers)
    names.push_back(name);
  return names;
}

// A plan that is out of bounds cannot be analyzed: without that checker the others do not run.
std::string staticKiller(ProgramT &program, std::string_view without) {
  if (!planfile::checkBounds(program))
    return without == "bounds" ? "" : "bounds";
  planfile::updateLiveBytes(program);
  for (auto [name, check] : kCheckers)
    if (name != without && !check(program).empty())
      return std::string(name);
  return "";
}

std::string PlanMutationRunner::runAll(const ProgramT &mutant) const {
  for (auto [runner, limit] : runners) {
    RunResult result = runner->run(mutant, limit);
    if (!result.how.empty())
      return result.how;
  }
  return "same";
}

// Returns whether the exchanged operands commute in every launch of the mutant.
bool PlanMutationRunner::commutes(const Mutant &mutant) const {
  return std::all_of(mutant.sites.begin(), mutant.sites.end(), [&](const PlanSite &site) {
    const planfile::LaunchT *launch = instructionAt(program, site).body.AsLaunch();
    return launch && isSymmetric(*launch, program.kernels[launch->kernel]->source,
                                 runners[0].first->kernelsOfPlan()[launch->kernel], mutant.value,
                                 mutant.other);
  });
}

void PlanMutationRunner::decideOne(const Mutant &mutant, Record &record) const {
  ProgramT changed(program);
  apply(mutant, changed);
  // Skip the checkers for Scale: they do not look into kernels, where a wrong scale would be.
  std::string overwriter = mutant.fault == Fault::Scale ? "" : staticKiller(changed, without);
  std::string reason = overwriter.empty() ? equivalence.reason(mutant, changed) : "";
  put(record.overwriter, overwriter);
  put(record.reason, reason);
  bool needed = overwriter.empty() && reason.empty();
  if (overwriter == "bounds" || !(needed || (numbersMatter(mutant.fault) && reason.empty())))
    return;
  record.running = true;
  std::string numbers = runAll(changed);
  put(record.numbers, numbers);
  if (needed && numbers != "same")
    put(record.overwriter, numbers);
  else if (needed && drawsOrders && !runners[0].first->passesInDrawnOrders(changed, runners[0].second))
    put(record.overwriter, "interleavings");
  else if (needed && mutant.fault == Fault::Operands && commutes(mutant))
    put(record.reason, "operands that the kernel, run alone, may have in either order");
  record.running = false;
}

void PlanMutationRunner::serve(const std::vector<Mutant> &mutants, Record *records, size_t first,
                        size_t stride) const {
  for (size_t i = first; i < mutants.size(); i += stride) {
    if (records[i].begun)
      continue;
    records[i].begun = true;
    ::alarm(kHangSeconds);
    decideOne(mutants[i], records[i]);
    records[i].done = true;
  }
}

std::vector<Decision>
PlanMutationRunner::decide(const std::vector<Mutant> &mutants, unsigned processes,
                           const std::function<void(uint64_t)> &decided) const {
  size_t bytes = std::max<size_t>(1, mutants.size()) * sizeof(Record);
  void *shared = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return {};
  Record *records = static_cast<Record *>(shared);
  for (size_t i = 0; i < mutants.size(); ++i)
    new (records + i) Record();
  std::vector<pid_t> children(processes, 0);
  auto begin = [&](unsigned share) {
    pid_t child = ::fork();
    if (child == 0) {
      serve(mutants, records, share, processes);
      ::_exit(0);
    }
    children[share] = child;
  };
  // Records how a child died as the result of the mutant that it had started.
  auto bury = [&](unsigned share, int status) {
    for (size_t i = share; i < mutants.size(); i += processes)
      if (records[i].begun && !records[i].done) {
        records[i].done = true;
        const char *how = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hang" : "crash";
        bool needed = !records[i].overwriter[0] && !records[i].reason[0];
        if (records[i].running)
          put(records[i].numbers, how);
        if (needed)
          put(records[i].overwriter, how);
      }
  };
  for (unsigned share = 0; share < processes; ++share)
    begin(share);
  for (unsigned share = 0; share < processes; ++share)
    while (children[share] > 0) {
      int status = 0;
      while (::waitpid(children[share], &status, WNOHANG) == 0) {
        ::usleep(10'000);
        decided(static_cast<uint64_t>(std::count_if(records, records + mutants.size(),
                                                    [](const Record &r) { return r.done; })));
      }
      children[share] = 0;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        break;
      bury(share, status);
      begin(share);
    }
  std::vector<Decision> decisions;
  for (size_t i = 0; i < mutants.size(); ++i)
    decisions.push_back({records[i].overwriter, records[i].reason, records[i].numbers});
  ::munmap(shared, bytes);
  return decisions;
}

} // namespace llmc::verify

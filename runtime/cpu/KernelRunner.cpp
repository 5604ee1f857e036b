#include "runtime/cpu/KernelRunner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;

// Closes all arenas but one rank's for as long as it lives, if isolation is on.
class KernelRunner::Isolation {
public:
  Isolation(const KernelRunner &runner, const Rank &rank)
      : runner(runner), rank(rank), on(runner.isolate_) {
    if (on)
      forOthers([](const Arena &arena) { arena.close(); });
  }
  ~Isolation() {
    if (on)
      forOthers([](const Arena &arena) { arena.open(); });
  }

private:
  template <class F> void forOthers(F f) {
    for (const auto &other : runner.ranks_.all())
      if (other.get() != &rank)
        f(other->arena);
  }
  const KernelRunner &runner;
  const Rank &rank;
  bool on;
};

KernelRunner::KernelRunner(const Kernels &kernels, const LocalRanks &ranks, const Options &options)
    : kernels_(kernels), ranks_(ranks), threads_(options.threads), isolate_(options.isolate), routes_(options.routes),
      showsRoutes_(bool(options.routes)) {
  for (unsigned i = 0; i < options.workers; ++i) {
    teams_.push_back(std::make_unique<ThreadTeam>(
        threads_, [pin = options.pin, i](unsigned thread) { pin(i, thread); }));
    scratch_.emplace_back(threads_);
  }
  prepareLibrary(options.useLibrary);
}

void KernelRunner::prepareLibrary(bool use) {
  std::string why = "switched off";
  if (use)
    library_ = MatmulLibrary::open(why);
  for (const auto &stage : ranks_.stages()) {
    auto &parts = parts_.emplace_back(stage->matmuls.size());
    auto &grouped = grouped_.emplace_back(stage->matmuls.size());
    for (size_t i = 0; i < stage->matmuls.size(); ++i)
      if (stage->matmuls[i]->routing)
        grouped[i] = std::make_unique<GroupedProduct>(*stage->matmuls[i], library_.get());
      else if (library_)
        parts[i] = splitMatmul(*library_, *stage->matmuls[i], threads_);
  }
  libraryNote_ = library_ ? noteOfLibrary() : "the program's own kernels (" + why + ")";
  if (library_)
    library_->finish(workers() * threads_);
}

// Says what multiplies: the library, and for 16-bit floats, which it may lack, each type by itself.
std::string KernelRunner::noteOfLibrary() const {
  struct Products {
    size_t all = 0, refused = 0;
  };
  auto isNarrow = [](DType type) { return type == DType::BF16 || type == DType::F16; };
  std::map<DType, Products> narrow;
  Products wide;
  for (const auto &stage : ranks_.stages())
    for (size_t i = 0; i < stage->matmuls.size(); ++i) {
      DType type = stage->matmuls[i]->a_type;
      Products &products = isNarrow(type) ? narrow[type] : wide;
      ++products.all;
      products.refused += !byLibrary(stage->stage, uint32_t(i));
    }
  const char *own = "by the program's own kernels";
  std::string note = "oneDNN " + library_->version();
  if (wide.refused > 0)
    note += support::text(", ", wide.refused, " of ", wide.all, " products ", own);
  for (const auto &[type, products] : narrow) {
    note += support::text("; ", toString(type), " ");
    std::string why = library_->whyNot(type);
    if (!why.empty())
      note += support::text(own, " (", why, ")");
    else if (products.refused > 0)
      note += support::text("by oneDNN, ", products.refused, " of ", products.all, " ", own);
    else
      note += "by oneDNN";
  }
  return note;
}

void KernelRunner::launch(const Site &site) {
  compute(site);
  if (site.op.hasRoutes && showsRoutes_)
    showRoutesOf(site);
}

void KernelRunner::showRoutesOf(const Site &site) const {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const StageProgram &program = *rank.program;
  const planfile::InstructionT &instruction = program.instructionOf(site.opIndex());
  const planfile::RoutesT &of = *instruction.body.AsLaunch()->routes;
  auto at = [&, &rank = rank, &entry = entry, &op = op](uint32_t i) {
    return program.buffers[op.firstBuffer + i].at(rank.bases.data(), entry.lanes);
  };
  bool isChosen = of.kind == planfile::RoutesKind::Chosen;
  routes_({of, instruction.phase, rank.coordinate, entry.lanes[0].microBatch,
           isChosen ? reinterpret_cast<const float *>(at(0)) : nullptr,
           isChosen && op.buffers > 2 ? reinterpret_cast<const float *>(at(1)) : nullptr,
           reinterpret_cast<int64_t *>(at(op.buffers - 1))});
}

void KernelRunner::compute(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const StageProgram &program = *rank.program;
  constexpr size_t most = 33; // as in checkBounds
  void *buffers[most];
  int64_t scalars[most];
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < op.buffers; ++i) {
    const Buffer &buffer = program.buffers[op.firstBuffer + i];
    buffers[i] = buffer.at(rank.bases.data(), entry.lanes);
    bytes += buffer.size;
  }
  for (uint32_t i = 0; i < op.scalars; ++i)
    scalars[i] = program.valueOf(program.scalars[op.firstScalar + i], rank.coordinate);
  KernelFunction kernel = kernels_[op.index];
  Isolation isolation(*this, rank);
  ThreadTeam &team = *teams_[worker];
  if (team.threads() == 1 || op.rows < 2 || bytes < kLeastSharedBytes)
    return kernel(buffers, scalars, 0, op.rows);
  // Makes more parts than threads, so that a late helper does not delay the rest.
  int64_t parts = std::min<int64_t>(op.rows, int64_t(team.threads()) * 4);
  team.run(parts, [&](int64_t part, unsigned) {
    kernel(buffers, scalars, op.rows * part / parts, op.rows * (part + 1) / parts);
  });
}

bool KernelRunner::matmul(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const StageProgram &program = *rank.program;
  const planfile::MatmulT &what = *program.matmuls[op.index];
  if (what.routing)
    return groupedMatmul(site);
  const Buffer *refs = program.buffers.data() + op.firstBuffer;
  void *buffers[3];
  for (int i = 0; i < 3; ++i)
    buffers[i] = refs[i].at(rank.bases.data(), entry.lanes);
  Isolation isolation(*this, rank);
  ThreadTeam &team = *teams_[worker];
  const auto &parts = parts_[program.stage][op.index];
  const uint64_t sizes[3] = {planfile::byteSize(what.a_type), planfile::byteSize(what.b_type),
                             planfile::byteSize(what.c_type)};
  auto at = [&](int i, uint64_t element) {
    return static_cast<std::byte *>(buffers[i]) + element * sizes[i];
  };
  if (!parts.empty()) {
    std::atomic<bool> good{true};
    team.run(static_cast<int64_t>(parts.size()), [&, w = worker](int64_t p, unsigned thread) {
      const MatmulPart &part = parts[p];
      if (!library_->execute(part.id, w * threads_ + thread, at(part.swapped ? 1 : 0, part.a),
                             at(part.swapped ? 0 : 1, part.b), at(2, part.c)))
        good = false;
    });
    return good;
  }
  // Passes the sizes, then the strides, as plan.fbs defines.
  std::array<int64_t, 13> scalars{what.batch, what.m, what.n, what.k};
  auto next = scalars.begin() + 4;
  for (const auto *strides : {&what.a_strides, &what.b_strides, &what.c_strides})
    next = std::copy_n(strides->begin(), 3, next);
  int64_t count = std::min<int64_t>(op.rows, int64_t(team.threads()) * 4);
  team.run(count, [&](int64_t part, unsigned) {
    kernels_[what.fallback](buffers, scalars.data(), op.rows * part / count,
                            op.rows * (part + 1) / count);
  });
  return true;
}

bool KernelRunner::groupedMatmul(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const StageProgram &program = *rank.program;
  auto at = [&, &rank = rank, &entry = entry, &op = op](uint32_t i) {
    return program.buffers[op.firstBuffer + i].at(rank.bases.data(), entry.lanes);
  };
  GroupedProduct::Call call{at(0),
                            at(1),
                            at(2),
                            reinterpret_cast<const int64_t *>(at(3)),
                            program.valueOf(program.scalars[op.firstScalar], rank.coordinate),
                            kernels_[program.matmuls[op.index]->fallback],
                            worker * threads_};
  Isolation isolation(*this, rank);
  return grouped_[program.stage][op.index]->run(call, *teams_[worker], scratch_[worker]);
}

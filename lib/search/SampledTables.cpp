#include "lib/search/SampledTables.h"

#include "lib/cost/Interpolation.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::search;

SampledTables::SampledTables(predict::RaisedModels &models, const Request &request, const cost::Machine &machine,
                             const Space &space)
    : models_(models), request_(request), machine_(machine), space_(space), most_(std::max<int64_t>(8, request.gpus)) {}

const predict::Tables *SampledTables::read(const Layout &layout, Staging staging, int zero, int64_t dp, int64_t microBatch) {
  auto [at, isNew] = tables_.try_emplace(Key{layout, staging, zero, dp, microBatch});
  std::string &refusal = refusals_[at->first];
  why_ = refusal;
  if (!isNew)
    return at->second ? &*at->second : nullptr;
  CompileOptions options = request_.options;
  cost::Machine machine = machine_;
  Candidate candidate{layout, dp, staging == Staging::Single ? 1 : 2, 1, microBatch, 1,
                      staging == Staging::Split ? cost::Order::ZeroBubble : cost::Order::OneFOneB, zero, cost::Kept::All, {}};
  space_.apply(candidate, options, machine);
  {
    mlir::ScopedDiagnosticHandler handler(&models_.context(), [&](mlir::Diagnostic &diagnostic) {
      llvm::raw_string_ostream text(refusal);
      if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && refusal.empty())
        text << diagnostic;
      return mlir::success();
    });
    at->second = readTables(models_, options, machine.choices, space_.recomputes());
  }
  why_ = refusal;
  ++read_;
  if (!at->second)
    return nullptr;
  if (model_.of.empty())
    model_ = *at->second;
  return &*at->second;
}

std::map<cost::Kept, cost::Table> SampledTables::at(const Layout &layout, Staging staging, int zero, int64_t dp,
                                                    int64_t microBatch) {
  auto exactly = [&]() -> std::map<cost::Kept, cost::Table> {
    const predict::Tables *tables = read(layout, staging, zero, dp, microBatch);
    return tables ? tables->of : std::map<cost::Kept, cost::Table>();
  };
  // Leaves groups of one rank for meshes of their own: they have no collectives.
  const int64_t etp = std::max<int64_t>(1, layout.etp), experts = layout.ep * etp, others = layout.cp * layout.tp;
  const bool isAlone = dp == 1 || (layout.ep > 1 && dp * others == experts);
  struct Sample {
    const predict::Tables *tables;
    double share, from, to; // of the difference; sizes of the axis in the sample and here, by that of the base
  };
  std::vector<Sample> samples;
  const predict::Tables *base = nullptr;
  if (isAlone) {
    base = read(layout, staging, zero, dp, 1);
    if (base && microBatch > 1)
      samples.push_back({read(layout, staging, zero, dp, 2), double(microBatch - 1), 1, 1});
  } else {
    Layout least = layout, largest = layout;
    int64_t few = 2, many = most_;
    if (layout.ep > 1) {
      // Takes the ends of what ep may be, such that others have the same experts.
      const int64_t all = std::max<int64_t>(layout.ep, int64_t(model_.of.empty() ? 1 : model_.of.begin()->second.experts));
      std::vector<int64_t> sizes = divisorsOf(all);
      least.ep = sizes.size() > 1 ? sizes[1] : layout.ep, largest.ep = all;
      few = std::max<int64_t>(2, 2 * least.ep * etp);
      many = std::max(many, 2 * largest.ep * etp);
      if (request_.options.ep == layout.ep && !request_.free.ep)
        least = largest = layout, few = std::max<int64_t>(2, 2 * layout.ep * etp), many = std::max(most_, 2 * few);
    }
    base = read(least, staging, zero, many, 1);
    if (base && microBatch > 1)
      samples.push_back({read(least, staging, zero, many, 2), double(microBatch - 1), 1, 1});
    if (base && dp != many)
      samples.push_back({read(least, staging, zero, few, 1), (1.0 / dp - 1.0 / many) / (1.0 / few - 1.0 / many), double(few) / many,
                         double(dp) / many});
    if (base && layout.ep != least.ep)
      samples.push_back({read(largest, staging, zero, many, 1),
                         (1.0 / layout.ep - 1.0 / least.ep) / (1.0 / largest.ep - 1.0 / least.ep),
                         double(largest.ep) / least.ep, double(layout.ep) / least.ep});
  }
  if (!base || llvm::any_of(samples, [](const Sample &sample) { return !sample.tables; }))
    return exactly();
  std::map<cost::Kept, cost::Table> sum = base->of;
  for (auto &[kept, table] : sum)
    for (const Sample &sample : samples)
      if (!cost::addDifference(table, base->of.at(kept), sample.tables->of.at(kept), sample.share, sample.from, sample.to))
        return exactly();
  return sum;
}

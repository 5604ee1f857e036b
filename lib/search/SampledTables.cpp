#include "lib/search/SampledTables.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::search;

std::vector<SampledTables::Sample> SampledTables::plan(const TableKey &key, bool forPasses, double rows) const {
  const Layout &layout = key.layout;
  const int64_t etp = std::max<int64_t>(1, layout.etp);
  auto with = [&](int64_t ep, int64_t dp, int64_t rows) {
    TableKey sample = key;
    sample.layout.ep = ep, sample.dp = dp, sample.microBatch = rows;
    return sample;
  };
  const double more = rows - 1; // rows, of which a sample has one more than the base
  // Leaves groups of one rank for meshes of their own, which have no collectives: what passes take is the same.
  const bool isAlone = key.dp == 1 || (layout.ep > 1 && key.dp * layout.cp * layout.tp == layout.ep * etp);
  if (isAlone && !forPasses) {
    std::vector<Sample> samples{{with(layout.ep, key.dp, 1)}};
    if (more != 0)
      samples.push_back({with(layout.ep, key.dp, 2), more});
    return samples;
  }
  int64_t least = layout.ep, largest = layout.ep, few = 2, many = most_;
  if (layout.ep > 1) {
    // Takes the ends of what ep may be, such that other ranks have the same experts, where these share the same axes with tokens.
    auto apart = apart_.find({layout, forPasses});
    int leftOut = apart == apart_.end() ? 0 : apart->second; // of the least sizes, which have other kernels
    if (request_.free.ep && leftOut < 2) {
      auto sharesWith = [&](int64_t ep) {
        int64_t ranks = ep * etp, tokens = layout.tp * layout.cp;
        return std::pair((ranks > layout.tp) - (ranks < layout.tp), (ranks > tokens) - (ranks < tokens));
      };
      const int64_t all = std::max<int64_t>(layout.ep, model_.of.empty() ? 1 : int64_t(model_.of.begin()->second.experts));
      std::vector<int64_t> like = divisorsOf(all);
      std::erase_if(like, [&](int64_t ep) { return ep == 1 || sharesWith(ep) != sharesWith(layout.ep); });
      auto from = llvm::find(like, layout.ep);
      if (from - like.begin() >= leftOut && like.end() - from > 0)
        least = like[leftOut], largest = like.back();
    }
    few = std::max<int64_t>(2, 2 * least * etp);
    many = std::max({many, 2 * few, 2 * largest * etp});
  }
  std::vector<Sample> samples{{with(least, many, 1)}};
  if (more != 0)
    samples.push_back({with(least, many, 2), more});
  auto share = [](int64_t here, int64_t base, int64_t sample) {
    return (1.0 / double(here) - 1.0 / double(base)) / (1.0 / double(sample) - 1.0 / double(base));
  };
  if (!forPasses && key.dp != many)
    samples.push_back({with(least, few, 1), share(key.dp, many, few), double(few) / double(many), double(key.dp) / double(many)});
  if (layout.ep != least)
    samples.push_back({with(largest, many, 1), share(layout.ep, least, largest), double(largest) / double(least),
                       double(layout.ep) / double(least)});
  return samples;
}

std::vector<TableKey> SampledTables::samplesOf(const TableKey &key, bool forPasses) const {
  std::vector<TableKey> keys;
  for (const Sample &sample : plan(key, forPasses, double(key.microBatch)))
    keys.push_back(sample.key);
  return keys;
}

void SampledTables::read(const std::vector<TableKey> &keys) {
  std::vector<TableKey> missing;
  for (const TableKey &asked : keys)
    if (TableKey key = readOf(asked); !tables_.contains(key)) {
      missing.push_back(key);
      tables_.try_emplace(key);
    }
  // Reads tables together that differ in the rows of a micro-batch alone, where cores have enough to read besides.
  std::vector<std::vector<TableKey>> groups;
  std::ranges::sort(missing);
  for (const TableKey &key : missing)
    if (missing.size() > readers_.threads() && !groups.empty() && key.withRows(1) == groups.back().front().withRows(1))
      groups.back().push_back(key);
    else
      groups.push_back({key});
  readers_.run(groups.size(), [&](predict::RaisedModels &models, size_t i) { readGroup(models, groups[i]); });
  for (const TableKey &key : missing)
    if (const Read &read = tables_.at(key); read.tables && model_.of.empty())
      model_ = *read.tables;
}

void SampledTables::readGroup(predict::RaisedModels &models, llvm::ArrayRef<TableKey> keys) {
  CompileOptions options = request_.options;
  cost::Machine machine = machine_;
  auto apply = [&](const TableKey &key) {
    Candidate candidate{key.layout, key.dp, key.staging == Staging::Single ? 1 : 2, 1, key.microBatch, 1,
                        cost::Order::OneFOneB, key.zero, cost::Kept::All, {}};
    space_.apply(candidate, options, machine);
  };
  std::optional<std::vector<predict::Tables>> together;
  if (keys.size() > 1) {
    apply(keys.front());
    std::vector<int64_t> rows;
    for (const TableKey &key : keys)
      rows.push_back(key.microBatch);
    firstError(models.context(), [&] {
      together = predict::readTablesOfRows(models, options, machine.choices, rows, space_.recomputes(), splits_);
    });
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    Read &read = tables_.find(keys[i])->second;
    if (together) {
      read.tables = std::move((*together)[i]);
    } else {
      apply(keys[i]);
      read.refusal = firstError(models.context(), [&] {
        read.tables = predict::readTables(models, options, machine.choices, space_.recomputes(), splits_);
      });
    }
    if (!read.tables)
      continue;
    for (const auto &[kept, table] : read.tables->of)
      read.numbers.emplace(kept, cost::numbersOf(table));
    for (const auto &[kept, table] : read.tables->split)
      read.splitNumbers.emplace(kept, cost::numbersOf(table));
  }
}

// Returns what was read of a mesh; null if that is nothing.
const SampledTables::Read *SampledTables::find(const TableKey &key, std::string &why) const {
  auto found = tables_.find(readOf(key));
  if (found == tables_.end())
    return nullptr;
  why = found->second.refusal;
  return found->second.tables ? &found->second : nullptr;
}

// Returns what was read for a choice of what is recomputed; other stacks have one table for all.
template <class Map> static auto &ofKept(Map &map, cost::Kept kept) {
  auto found = map.find(kept);
  return found == map.end() ? map.begin()->second : found->second;
}

std::optional<cost::Table> SampledTables::interpolate(const TableKey &key, cost::Kept kept, bool forPasses, std::string &why,
                                                      double share) const {
  std::vector<Sample> samples = plan(key, forPasses, share * double(key.microBatch));
  const Read *base = find(samples.front().key, why);
  if (!base)
    return std::nullopt;
  const bool isSplit = key.staging == Staging::Split;
  auto numbersOf = [&](const Read &read) -> const cost::TableNumbers & { return ofKept(isSplit ? read.splitNumbers : read.numbers, kept); };
  cost::Table table = ofKept(isSplit ? base->tables->split : base->tables->of, kept);
  if (samples.size() == 1)
    return table;
  const cost::TableNumbers &from = numbersOf(*base);
  cost::TableNumbers sum = from;
  for (size_t i = 1; i < samples.size(); ++i) {
    const Read *sample = find(samples[i].key, why);
    if (!sample || !cost::addDifference(sum, from, numbersOf(*sample), samples[i].share, samples[i].from, samples[i].to, forPasses))
      return std::nullopt;
  }
  cost::setNumbers(table, sum, forPasses);
  return table;
}

bool SampledTables::leaveOutLeast(const Layout &layout, bool forPasses) {
  if (!request_.free.ep || layout.ep == 1)
    return false;
  int &leftOut = apart_[{layout, forPasses}];
  return leftOut < 2 && ++leftOut;
}

std::optional<cost::Table> SampledTables::at(const TableKey &key, cost::Kept kept, bool forPasses) {
  read(samplesOf(key, forPasses));
  if (auto table = interpolate(key, kept, forPasses, why_))
    return table;
  // Leaves out the least size of ep where it has other kernels than the others, and then interpolates no more.
  if (why_.empty() && leaveOutLeast(key.layout, forPasses))
    return at(key, kept, forPasses);
  // Reads the mesh itself, where another one of its layout is refused or has other kernels. Where it is refused alike, so are all.
  std::tuple layout(key.layout, key.staging, key.zero);
  if (auto refused = refused_.find(layout); refused != refused_.end()) {
    why_ = refused->second;
    return std::nullopt;
  }
  const bool isRefused = !why_.empty();
  read({key});
  const Read *own = find(key, why_);
  if (!own && isRefused)
    refused_[layout] = why_;
  return own ? std::optional(ofKept(key.staging == Staging::Split ? own->tables->split : own->tables->of, kept)) : std::nullopt;
}

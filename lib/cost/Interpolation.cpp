#include "lib/cost/Interpolation.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::cost;

namespace {

// Visits all numbers of passes or of the update of a table, in one order: those that are affine, those of groups, and the rest,
// which is structure.
template <class Visitor, class OfTable> class Walk {
public:
  Walk(OfTable &table, Visitor &visitor) : table_(table), v_(visitor) {}

  void passes() {
    for (auto *part : {&table_.before, &table_.after, &table_.shared})
      walkPart(*part);
    v_.same(int64_t(table_.kinds.size()));
    for (auto &kind : table_.kinds)
      walkPart(kind);
    for (int kind : table_.layers)
      v_.same(kind);
    for (auto *number : {&table_.tied, &table_.copies, &table_.experts, &table_.tokens, &table_.width, &table_.sentForward, &table_.sentBackward})
      v_.number(*number);
    walkStates(table_.stepStates);
  }

  void update() {
    for (auto *part : {&table_.before, &table_.after, &table_.shared})
      walkWork(part->update);
    for (auto &kind : table_.kinds)
      walkWork(kind.update);
    walkWork(table_.step);
  }

private:
  template <class OfStates> void walkStates(OfStates &s) {
    for (auto *number : {&s.weights, &s.masters, &s.moments, &s.gradients, &s.received, &s.updated})
      v_.number(*number);
  }
  template <class OfWork> void walkWork(OfWork &work) {
    v_.same(int64_t(work.products.size()));
    for (auto &p : work.products) {
      for (auto *number : {&p.rows, &p.columns, &p.batch, &p.resultBytes})
        v_.number(*number);
      v_.count(p.experts);
      v_.depth(p);
      v_.same(p.merged), v_.same(p.ofWeights), v_.same(p.accumulates);
    }
    v_.same(int64_t(work.attentions.size()));
    for (auto &a : work.attentions) {
      for (auto *number : {&a.batch, &a.queries, &a.keys, &a.heads, &a.kvHeads, &a.headDim, &a.valueDim, &a.window, &a.seen})
        v_.number(*number);
      v_.same(a.causal), v_.same(a.backward);
    }
    v_.same(int64_t(work.collectives.size()));
    for (auto &c : work.collectives) {
      v_.same(int64_t(c.kind)), v_.same(int64_t(c.role));
      v_.ranks(c.group.size), v_.ranks(c.group.stride);
      v_.number(c.bytes), v_.number(c.calls);
    }
    for (auto *number : {&work.flops, &work.bytes, &work.operations})
      v_.number(*number);
    for (auto *order : {&work.order, &work.ofTwo}) {
      v_.same(int64_t(order->size()));
      for (auto &entry : *order) {
        v_.same(int64_t(entry.kind)), v_.same(int64_t(entry.index)), v_.same(int64_t(entry.until));
        v_.number(entry.bytes);
      }
    }
  }
  template <class OfPart> void walkPart(OfPart &part) {
    for (auto *work : {&part.forward, &part.backward, &part.weightGradients})
      walkWork(*work);
    for (auto *number : {&part.parameters.dense, &part.parameters.expert, &part.wholeParameters, &part.wholeExperts, &part.inputs,
                         &part.unfused, &part.products, &part.carried, &part.logits, &part.kept.toBackward, &part.kept.toWeights,
                         &part.kept.fromBackward})
      v_.number(*number);
    walkStates(part.states);
    v_.same(part.keepsInput), v_.same(part.keepsGradient);
  }

  OfTable &table_;
  Visitor &v_;
};

// Returns the number of matrices that a product has.
double matricesOf(const Product &product) { return double(std::max<int64_t>(1, product.experts)); }

struct Reader {
  TableNumbers::Lists &list;

  void number(double value) { list.numbers.push_back(value); }
  // Adds up the depth of all experts: gradients of their weights sum over the rows of each, of which fewer experts have more.
  void depth(const Product &product) { list.numbers.push_back(product.depth * matricesOf(product)); }
  void count(int64_t value) { list.counts.push_back(value); }
  void ranks(int64_t value) { list.groups.push_back(value); }
  void same(int64_t value) { list.structure.push_back(value); }
};

struct Writer {
  const TableNumbers::Lists &list;
  size_t number_ = 0, count_ = 0, group_ = 0;

  void number(double &value) { value = list.numbers[number_++]; }
  void depth(Product &product) { product.depth = list.numbers[number_++] / matricesOf(product); }
  void count(int64_t &value) { value = list.counts[count_++]; }
  void ranks(int64_t &value) { value = list.groups[group_++]; }
  void same(int64_t) {}
};

bool addLists(TableNumbers::Lists &sum, const TableNumbers::Lists &base, const TableNumbers::Lists &sample, double share, double from,
              double to) {
  if (sum.structure != base.structure || sum.structure != sample.structure)
    return false;
  for (size_t i = 0; i < sum.numbers.size(); ++i)
    sum.numbers[i] += share * (sample.numbers[i] - base.numbers[i]);
  for (size_t i = 0; i < sum.counts.size(); ++i)
    sum.counts[i] += std::llround(share * double(sample.counts[i] - base.counts[i]));
  for (size_t i = 0; i < sum.groups.size(); ++i)
    if (sample.groups[i] != base.groups[i] && from != 1) {
      double power = std::round(std::log(double(sample.groups[i]) / double(base.groups[i])) / std::log(from));
      sum.groups[i] = std::max<int64_t>(1, std::llround(double(sum.groups[i]) * std::pow(to, power)));
    }
  return true;
}

} // namespace

TableNumbers llmc::cost::numbersOf(const Table &table) {
  TableNumbers lists;
  Reader passes{lists.passes}, update{lists.update};
  Walk<Reader, const Table>(table, passes).passes();
  Walk<Reader, const Table>(table, update).update();
  return lists;
}

void llmc::cost::setNumbers(Table &table, const TableNumbers &numbers, bool forPasses) {
  Writer passes{numbers.passes}, update{numbers.update};
  Walk<Writer, Table>(table, passes).passes();
  if (!forPasses)
    Walk<Writer, Table>(table, update).update();
}

bool llmc::cost::addDifference(TableNumbers &sum, const TableNumbers &base, const TableNumbers &sample, double share, double from,
                               double to, bool forPasses) {
  return addLists(sum.passes, base.passes, sample.passes, share, from, to) &&
         (forPasses || addLists(sum.update, base.update, sample.update, share, from, to));
}

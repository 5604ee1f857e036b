#include "lib/cost/Interpolation.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::cost;

namespace {

// Visits all numbers of a table, in one order: those that are affine, those of groups, and the rest, which is structure.
template <class Visitor, class OfTable> class Walk {
public:
  Walk(OfTable &table, Visitor &visitor) : v_(visitor) {
    for (auto *part : {&table.before, &table.after, &table.shared})
      walkPart(*part);
    v_.same(int64_t(table.kinds.size()));
    for (auto &kind : table.kinds)
      walkPart(kind);
    for (int kind : table.layers)
      v_.same(kind);
    for (auto *number : {&table.tied, &table.copies, &table.experts, &table.tokens, &table.width, &table.sentForward, &table.sentBackward})
      v_.number(*number);
    walkWork(table.step);
    walkStates(table.stepStates);
  }

private:
  template <class OfStates> void walkStates(OfStates &s) {
    for (auto *number : {&s.weights, &s.masters, &s.moments, &s.gradients, &s.received, &s.updated})
      v_.number(*number);
  }
  template <class OfWork> void walkWork(OfWork &work) {
    v_.same(int64_t(work.products.size()));
    for (auto &p : work.products) {
      for (auto *number : {&p.rows, &p.columns, &p.depth, &p.batch, &p.resultBytes})
        v_.number(*number);
      v_.count(p.experts);
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
    v_.same(int64_t(work.order.size()));
    for (auto &entry : work.order) {
      v_.same(int64_t(entry.kind)), v_.same(int64_t(entry.index)), v_.same(int64_t(entry.until));
      v_.number(entry.bytes);
    }
  }
  template <class OfPart> void walkPart(OfPart &part) {
    for (auto *work : {&part.forward, &part.backward, &part.weightGradients, &part.update})
      walkWork(*work);
    for (auto *number : {&part.parameters.dense, &part.parameters.expert, &part.wholeParameters, &part.wholeExperts, &part.inputs,
                         &part.unfused, &part.products, &part.carried, &part.logits, &part.kept.toBackward, &part.kept.toWeights,
                         &part.kept.fromBackward})
      v_.number(*number);
    walkStates(part.states);
    v_.same(part.keepsInput), v_.same(part.keepsGradient);
  }

  Visitor &v_;
};

// Lists what a walk visits.
template <class Number, class Count> struct List {
  std::vector<Number *> numbers;
  std::vector<Count *> counts, groups;
  std::vector<int64_t> structure;

  void number(Number &number) { numbers.push_back(&number); }
  void count(Count &count) { counts.push_back(&count); }
  void ranks(Count &count) { groups.push_back(&count); }
  void same(int64_t value) { structure.push_back(value); }
};

List<const double, const int64_t> listOf(const Table &table) {
  List<const double, const int64_t> list;
  Walk<decltype(list), const Table>(table, list);
  return list;
}

} // namespace

bool llmc::cost::addDifference(Table &sum, const Table &base, const Table &sample, double share, double from, double to) {
  List<double, int64_t> own;
  Walk<decltype(own), Table>(sum, own);
  auto less = listOf(base), more = listOf(sample);
  if (own.structure != less.structure || own.structure != more.structure)
    return false;
  for (size_t i = 0; i < own.numbers.size(); ++i)
    *own.numbers[i] += share * (*more.numbers[i] - *less.numbers[i]);
  for (size_t i = 0; i < own.counts.size(); ++i)
    *own.counts[i] += std::llround(share * double(*more.counts[i] - *less.counts[i]));
  for (size_t i = 0; i < own.groups.size(); ++i)
    if (*more.groups[i] != *less.groups[i] && from != 1) {
      double power = std::round(std::log(double(*more.groups[i]) / double(*less.groups[i])) / std::log(from));
      *own.groups[i] = std::max<int64_t>(1, std::llround(double(*own.groups[i]) * std::pow(to, power)));
    }
  return true;
}

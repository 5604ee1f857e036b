#include "lib/budget/Quantities.h"

#include "lib/budget/Amount.h"
#include "lib/support/Error.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::budget;
using support::text;
using Q = Quantity;

namespace {

// States that a quantity is a constant times the product of others.
struct Relation {
  const char *formula, *unit;
  Q product;
  double constant;
  std::vector<Q> factors;
};

const std::vector<Relation> &relations() {
  static const std::vector<Relation> list = {
      {"FLOPs = 6 x params x tokens", "FLOPs", Q::Flops, 6, {Q::Params, Q::Tokens}},
      {"GPU-hours = GPUs x days x 24", "GPU-hours", Q::GpuHours, 24, {Q::Gpus, Q::Days}},
      {"FLOPs = GPU-hours x 3600 x peak x MFU", "FLOPs", Q::Flops, 3600, {Q::GpuHours, Q::Peak, Q::Mfu}},
      {"dollars = GPU-hours x price", "dollars", Q::Dollars, 1, {Q::GpuHours, Q::Price}},
  };
  return list;
}

// Returns the flags of the bits, as "--params and --tokens give".
std::string givenBy(unsigned origins) {
  std::vector<std::string> names;
  for (int i = 0; i < kQuantities; ++i)
    if (origins & (1u << i))
      names.push_back(flagOf(Q(i)));
  std::string all;
  for (size_t i = 0; i < names.size(); ++i)
    all += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return all + (names.size() == 1 ? " gives " : " give ");
}

std::string shown(double amount) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", amount);
  return text;
}

// Returns what else a flag of time or money needs before anything follows from it.
const char *neededBy(Q quantity) {
  switch (quantity) {
  case Q::Mfu:
    return "time: give --gpu too";
  case Q::Gpus:
    return "time: give --days, or --gpu and --mfu, too";
  case Q::Days:
    return "time: give --gpus, or --gpu and --mfu, too";
  case Q::Price:
    return "cost: give --gpu and --mfu, or --gpus and --days, or --dollars, too";
  case Q::Dollars:
    return "cost: give --dollars-per-gpu-hour, or --gpu and --mfu, too";
  case Q::Peak:
    return "time: give --mfu, or --gpus and --days, too";
  default:
    return nullptr;
  }
}

} // namespace

const char *budget::flagOf(Quantity quantity) {
  constexpr const char *names[kQuantities] = {"--flops", "--params", "--tokens", "--mfu", "--gpus", "--days",
                                              "", "--dollars-per-gpu-hour", "--dollars", "--gpu"};
  return names[int(quantity)];
}

void Quantities::give(Quantity quantity, double amount) {
  amounts_[int(quantity)] = amount;
  origins_[int(quantity)] = bit(quantity);
}

std::vector<std::string> Quantities::resolve() {
  // Solves each relation in which one quantity is open, until none is; an accelerator is never looked for.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Relation &r : relations()) {
      std::vector<Q> open;
      double factors = r.constant;
      unsigned origins = 0;
      auto see = [&](Q q) {
        origins |= origins_[int(q)];
        if (!amounts_[int(q)])
          open.push_back(q);
        else if (q != r.product)
          factors *= *amounts_[int(q)];
      };
      see(r.product);
      std::for_each(r.factors.begin(), r.factors.end(), see);
      if (open.size() != 1 || open[0] == Q::Peak)
        continue;
      amounts_[int(open[0])] = open[0] == r.product ? factors : *amounts_[int(r.product)] / factors;
      origins_[int(open[0])] = origins;
      changed = true;
    }
  }
  std::vector<std::string> errors;
  for (const Relation &r : relations()) {
    double right = r.constant;
    unsigned origins = 0;
    for (Q factor : r.factors) {
      right *= amounts_[int(factor)].value_or(NAN);
      origins |= origins_[int(factor)];
    }
    double left = amounts_[int(r.product)].value_or(NAN);
    if (std::abs(left - right) > 0.01 * std::max(left, right))
      errors.push_back(text(givenBy(origins_[int(r.product)]), shown(left), " ", r.unit, ", but ", givenBy(origins),
                            shown(right), " (", r.formula, "): leave one of these flags out"));
  }
  return errors;
}

std::vector<std::string> Quantities::unused() const {
  unsigned used = 0;
  for (const Relation &r : relations()) {
    unsigned all = bit(r.product);
    bool isKnown = amounts_[int(r.product)].has_value();
    for (Q factor : r.factors) {
      all |= bit(factor);
      isKnown &= amounts_[int(factor)].has_value();
    }
    used |= isKnown ? all : 0;
  }
  std::vector<std::string> errors;
  for (int i = 0; i < kQuantities; ++i)
    if (Q q = Q(i); isGiven(q) && !(used & bit(q)) && neededBy(q))
      errors.push_back(text(flagOf(q), " alone says nothing about ", neededBy(q)));
  return errors;
}

// Provides the functions by which an op's evaluation is written once for all scalars: double, Dual,
// Bounded (test/dialects/graph/Scalars.cpp).
#ifndef LLMC_DIALECTS_GRAPH_SCALARS_H
#define LLMC_DIALECTS_GRAPH_SCALARS_H

#include "dialects/graph/Bounded.h"
#include "dialects/graph/Dual.h"

#include <cstdint>

namespace llmc::graph {

// Makes the functions of double visible to templates, beside those of Dual and Bounded.
using std::cos, std::erf, std::exp, std::fabs, std::fmod, std::log, std::log1p, std::pow, std::sin,
    std::sqrt, std::tanh;

inline double valueOf(double x) { return x; }
inline double valueOf(Dual x) { return x.value; }
inline double valueOf(Bounded x) { return x.value; }
inline double maximum(double a, double b) { return a < b ? b : a; }
inline double minimum(double a, double b) { return b < a ? b : a; }

// Applies a function that is constant between jumps: the slope is 0, and the error infinite where
// the roundings could cross a jump.
template <typename F> double step(F f, double x) { return f(x); }
template <typename F> Dual step(F f, Dual x) { return f(x.value); }
template <typename F> Bounded step(F f, Bounded x) {
  double y = f(x.value);
  bool sure = x.error == 0 || (f(x.value + x.radius()) == y && f(x.value - x.radius()) == y);
  return {y, sure ? 0.0 : double(INFINITY)};
}

// Returns 1 or 0; a Bounded result has an infinite error where the roundings could decide it.
template <typename P> double compared(P holds, double a, double b) { return holds(a, b); }
template <typename P> Dual compared(P holds, Dual a, Dual b) { return holds(a.value, b.value); }
template <typename P> Bounded compared(P holds, Bounded a, Bounded b) {
  return {double(holds(a.value, b.value)), undecided(a, b) ? double(INFINITY) : 0.0};
}

// Returns `yes` if `condition` is not 0, else `no`. The error of a Bounded result covers both if
// the condition has an error.
template <typename T> T chosen(T condition, T yes, T no) {
  return valueOf(condition) != 0 ? yes : no;
}
inline Bounded chosen(Bounded condition, Bounded yes, Bounded no) {
  Bounded taken = condition.value != 0 ? yes : no;
  if (condition.error != 0)
    taken.error = std::fmax(yes.error, no.error) + std::fabs(yes.value - no.value) / Bounded::kUnit;
  return taken;
}

// Adds one of `terms` numbers to a sum, in whatever order an implementation adds them: a Bounded
// sum's rounding errors grow with their number (Bounded::growth()) and the magnitudes of all.
inline void accumulate(double &sum, double x, int64_t) { sum += x; }
inline void accumulate(Dual &sum, Dual x, int64_t) { sum = sum + x; }
inline void accumulate(Bounded &sum, Bounded x, int64_t terms) {
  double roundings = Bounded::growth(double(terms)) * std::fabs(x.value);
  sum = Bounded::rounded(sum.value + x.value, sum.error + x.error + roundings,
                         sum.isInfinite() || x.isInfinite(), 0);
}

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_SCALARS_H

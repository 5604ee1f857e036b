// Tracks a bound on the rounding error of each computed number (test/dialects/graph/Scalars.cpp).
#ifndef LLMC_DIALECTS_GRAPH_BOUNDED_H
#define LLMC_DIALECTS_GRAPH_BOUNDED_H

#include <cfloat>
#include <cmath>

namespace llmc::graph {

// Holds a number and a bound on how far a computation in floats may be from it: `error` counts unit
// roundoffs (2^-24 of float32) and holds for any sound implementation of the same formula.
// Operators add half a unit in the last place of their result for each rounding (running error
// analysis: Higham, Accuracy and Stability of Numerical Algorithms, section 3.3), functions
// kFunction of them. `error` is infinite where a value does not fit a float32, or a step (a
// comparison, floor) is undecided.
struct Bounded {
  double value = 0, error = 0;
  Bounded() = default;
  Bounded(double value, double error = 0) : value(value), error(error) {}

  static constexpr double kUnit = 0x1p-24, kFunction = 8;
  static constexpr double kDenormal = 0x1p-149 / kUnit; // below FLT_MIN spacing is absolute
  // Adds `units` roundings; NaN errors become infinite, and infinities of `exactInput` are exact.
  static Bounded rounded(double value, double error, bool exactInput, double units = 1) {
    bool fits = std::fabs(value) < double(FLT_MAX) * (1 + 0x1p-25);
    if (fits && units == 1 && double(float(value)) == value)
      units = 0; // nothing to round
    else if (fits && value != 0 && std::fabs(value) < double(FLT_MIN))
      error += kDenormal;
    if (fits)
      return {value, std::isnan(error) ? INFINITY : error + units * std::fabs(value)};
    return {value, exactInput && std::isinf(value) ? 0.0 : double(INFINITY)};
  }
  // Returns the factor by which the roundings of a sum grow: the root of the number of its terms
  // (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019, theorem 2.8),
  // or that number if the terms are equal, so that all are rounded alike.
  static double growth(double terms) { return termsAreEqual ? terms : std::sqrt(terms); }
  static inline thread_local bool termsAreEqual = false; // set by EqualTerms
  bool isInfinite() const { return std::isinf(value) && error == 0; }
  double radius() const { return error == 0 ? 0 : error * kUnit; }
};

// Marks the sums of this thread as sums of equal terms while it lives.
struct EqualTerms {
  EqualTerms() { Bounded::termsAreEqual = true; }
  ~EqualTerms() { Bounded::termsAreEqual = false; }
  EqualTerms(const EqualTerms &) = delete;
  EqualTerms &operator=(const EqualTerms &) = delete;
};

// Returns f(a) of a monotone `f`, whose error covers the images of both ends of a's interval.
template <typename F> Bounded applied(F f, Bounded a) {
  double y = f(a.value), off = 0;
  if (a.error != 0)
    off = std::fmax(std::fabs(f(a.value + a.radius()) - y), std::fabs(y - f(a.value - a.radius())));
  return Bounded::rounded(y, off / Bounded::kUnit, a.isInfinite(), Bounded::kFunction);
}
inline double times(double x, double error) { return error == 0 ? 0 : std::fabs(x) * error; }

inline Bounded operator-(Bounded a) { return {-a.value, a.error}; }
inline Bounded operator+(Bounded a, Bounded b) {
  return Bounded::rounded(a.value + b.value, a.error + b.error, a.isInfinite() || b.isInfinite());
}
inline Bounded operator-(Bounded a, Bounded b) { return a + -b; }
inline Bounded operator*(Bounded a, Bounded b) {
  // Keeps the second order: a difference that is zero but for roundings, squared, has no other.
  double error = times(a.value, b.error) + times(b.value, a.error) + times(a.radius(), b.error);
  return Bounded::rounded(a.value * b.value, error, a.isInfinite() || b.isInfinite());
}
inline Bounded operator/(Bounded a, Bounded b) {
  double q = a.value / b.value;
  return Bounded::rounded(q, times(1 / b.value, a.error) + times(q / b.value, b.error),
                          a.isInfinite() || b.value == 0);
}
inline Bounded &operator+=(Bounded &a, Bounded b) { return a = a + b; }
inline Bounded &operator/=(Bounded &a, Bounded b) { return a = a / b; }
inline Bounded exp(Bounded a) {
  return applied([](double x) { return std::exp(x); }, a);
}
inline Bounded log(Bounded a) {
  return applied([](double x) { return std::log(std::fmax(x, 0.0)); }, a);
}
inline Bounded log1p(Bounded a) {
  return applied([](double x) { return std::log1p(x); }, a);
}
inline Bounded sqrt(Bounded a) {
  return applied([](double x) { return std::sqrt(x < 0 ? 0.0 * x : x); }, a);
}
inline Bounded tanh(Bounded a) {
  return applied([](double x) { return std::tanh(x); }, a);
}
inline Bounded erf(Bounded a) {
  return applied([](double x) { return std::erf(x); }, a);
}
inline Bounded sin(Bounded a) { return {std::sin(a.value), a.error + Bounded::kFunction}; }
inline Bounded cos(Bounded a) { return {std::cos(a.value), a.error + Bounded::kFunction}; }
inline Bounded fabs(Bounded a) { return {std::fabs(a.value), a.error}; }
inline Bounded pow(Bounded a, Bounded b) {
  Bounded base = applied([&](double x) { return std::pow(x, b.value); }, a);
  if (b.error != 0 && a.value > 0)
    base.error += applied([&](double y) { return std::pow(a.value, y); }, b).error;
  return base;
}
// Returns whether the errors could turn a comparison of `a` and `b`.
inline bool undecided(Bounded a, Bounded b) {
  return a.error + b.error != 0 && std::fabs(a.value - b.value) <= a.radius() + b.radius();
}
inline Bounded fmod(Bounded a, Bounded b) {
  double turns = a.value / b.value, at = turns - std::trunc(turns), off = (a / b).radius();
  bool sure = a.error + b.error == 0 || (std::fabs(at) > off && 1 - std::fabs(at) > off);
  return {std::fmod(a.value, b.value), sure ? a.error + times(turns, b.error) : double(INFINITY)};
}
inline Bounded maximum(Bounded a, Bounded b) {
  return {std::fmax(a.value, b.value), undecided(a, b)     ? std::fmax(a.error, b.error)
                                       : a.value < b.value ? b.error
                                                           : a.error};
}
inline Bounded minimum(Bounded a, Bounded b) { return -maximum(-a, -b); }

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_BOUNDED_H

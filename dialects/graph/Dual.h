// Tracks a derivative through what is computed: forward mode (test/dialects/graph/Scalars.cpp).
#ifndef LLMC_DIALECTS_GRAPH_DUAL_H
#define LLMC_DIALECTS_GRAPH_DUAL_H

#include <cmath>

namespace llmc::graph {

// Holds a number and its derivative along one direction (forward mode; Griewank and Walther,
// Evaluating Derivatives, ch. 3). Step functions (floor, sign, integers) have derivative 0; at a
// kink the derivative is that of the chosen operand. Comparisons use the values alone.
struct Dual {
  double value = 0, slope = 0;
  Dual() = default;
  Dual(double value, double slope = 0) : value(value), slope(slope) {}
};

// Multiplies by the chain rule; a slope of 0 gives 0 even where `factor` is infinite.
inline double chain(double factor, double slope) { return slope == 0 ? 0 : factor * slope; }

inline Dual operator-(Dual a) { return {-a.value, -a.slope}; }
inline Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
inline Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
inline Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, chain(b.value, a.slope) + chain(a.value, b.slope)};
}
inline Dual operator/(Dual a, Dual b) {
  double q = a.value / b.value;
  return {q, chain(1 / b.value, a.slope) - chain(q / b.value, b.slope)};
}
inline Dual &operator+=(Dual &a, Dual b) { return a = a + b; }
inline Dual &operator/=(Dual &a, Dual b) { return a = a / b; }
inline Dual exp(Dual a) {
  double e = std::exp(a.value);
  return {e, chain(e, a.slope)};
}
inline Dual log(Dual a) { return {std::log(a.value), chain(1 / a.value, a.slope)}; }
inline Dual log1p(Dual a) { return {std::log1p(a.value), chain(1 / (1 + a.value), a.slope)}; }
inline Dual sqrt(Dual a) {
  double root = std::sqrt(a.value);
  return {root, chain(0.5 / root, a.slope)};
}
inline Dual tanh(Dual a) {
  double t = std::tanh(a.value), c = std::cosh(a.value);
  return {t, chain(1 / (c * c), a.slope)};
}
inline Dual erf(Dual a) {
  constexpr double kTwoOverRootPi = 1.12837916709551257390;
  return {std::erf(a.value), chain(kTwoOverRootPi * std::exp(-a.value * a.value), a.slope)};
}
inline Dual sin(Dual a) { return {std::sin(a.value), chain(std::cos(a.value), a.slope)}; }
inline Dual cos(Dual a) { return {std::cos(a.value), chain(-std::sin(a.value), a.slope)}; }
inline Dual fabs(Dual a) {
  return {std::fabs(a.value), a.value > 0 ? a.slope : a.value < 0 ? -a.slope : 0};
}
inline Dual pow(Dual a, Dual b) {
  double p = std::pow(a.value, b.value);
  double base = b.value == 0 ? 0 : chain(b.value * std::pow(a.value, b.value - 1), a.slope);
  return {p, base + (a.value > 0 ? chain(p * std::log(a.value), b.slope) : 0)};
}
inline Dual fmod(Dual a, Dual b) {
  double turns = std::trunc(a.value / b.value);
  return {std::fmod(a.value, b.value), a.slope - chain(turns, b.slope)};
}
inline Dual maximum(Dual a, Dual b) { return a.value < b.value ? b : a; }
inline Dual minimum(Dual a, Dual b) { return b.value < a.value ? b : a; }

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_DUAL_H

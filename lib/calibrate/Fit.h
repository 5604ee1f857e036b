// Finds the rates of a machine that explain what instructions of programs took there. Tests: test/simulate/FitTest.cpp.
#ifndef LLMC_LIB_CALIBRATE_FIT_H
#define LLMC_LIB_CALIBRATE_FIT_H

#include "lib/simulate/HostPrices.h"

#include <vector>

namespace llmc::calibrate {

// Holds what one instruction took, on average, and how often it ran.
struct Sample {
  simulate::Work work;
  double seconds = 0, calls = 0;
};

// Returns the coefficients, none below 0, that minimize the sum over rows of weight x (row . coefficients - target)^2
// (coordinate descent over a convex function: Lawson and Hanson, 1974, chapter 23, have the problem).
std::vector<double> fitNonNegative(const std::vector<std::vector<double>> &rows, const std::vector<double> &targets,
                                   const std::vector<double> &weights);

// Sets the rates but the products by the samples; those of which there is no sample stay as they are.
void fitRates(const std::vector<Sample> &samples, cost::HostRates &rates);

} // namespace llmc::calibrate

#endif // LLMC_LIB_CALIBRATE_FIT_H

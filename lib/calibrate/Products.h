// Measures matrix products of the library on this machine, as programs call them. Tests:
// test/numerics/calibrated.py.
#ifndef LLMC_LIB_CALIBRATE_PRODUCTS_H
#define LLMC_LIB_CALIBRATE_PRODUCTS_H

#include "lib/cost/Host.h"

#include <functional>
#include <map>
#include <string>

namespace llmc::calibrate {

// Returns grids of products by type and layout (HostRates::products) of ranks with `threads` threads, while `ranks` of
// them multiply at the same time. Lacks a type for which the library has no fast code; is empty without the library.
// Takes every third size if `quick`. `report` is called with the share that is done.
std::map<std::string, cost::ProductGrid> measureProducts(unsigned threads, unsigned ranks, bool quick,
                                                         const std::function<void(double)> &report);

} // namespace llmc::calibrate

#endif // LLMC_LIB_CALIBRATE_PRODUCTS_H

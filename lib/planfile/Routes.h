// Maps the routes that a rank has to those of a whole step, in the order in which the user gave the tokens.
// Tests: test/planfile/RoutesTest.cpp.
#ifndef LLMC_LIB_PLANFILE_ROUTES_H
#define LLMC_LIB_PLANFILE_ROUTES_H

#include "lib/planfile/Program.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace llmc::planfile {

class RoutesLayout {
public:
  // Takes what checkBounds() has accepted.
  RoutesLayout(const ProgramT &program, const RoutesT &routes);

  // Returns whether the routes are those of whole rows of tokens, as many as a micro-batch has.
  static bool fits(const ProgramT &program, const RoutesT &routes);

  // Returns [rows, tokens, choices]: the rows of all micro-batches of a step, or those of an inference.
  const std::array<int64_t, 3> &shape() const { return shape_; }
  int64_t size() const { return shape_[0] * shape_[1] * shape_[2]; }
  // Returns the element of shape() at which the choices of a token begin that begin at this element of the
  // shape of one micro-batch (Routes.global_shape).
  int64_t elementOf(int64_t element, uint32_t microBatch) const;

private:
  std::array<int64_t, 3> shape_;
  int64_t rowsOfMicroBatch_;
  std::vector<int64_t> given_; // by place in a row of ranks' parts: the place in the user's; empty: the same
};

// Calls visit(launch, routes) for every launch of the program that writes routes.
void forEachRoutes(const ProgramT &program, const std::function<void(const LaunchT &, const RoutesT &)> &visit);

// Returns the experts that tokens take in the end, by router: what a limit leaves of them, where there is one.
std::map<std::string, const RoutesT *> finalRoutes(const ProgramT &program);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_ROUTES_H

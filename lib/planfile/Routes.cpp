#include "lib/planfile/Routes.h"

#include "lib/planfile/Inputs.h"

#include <functional>
#include <numeric>

using namespace llmc;
using namespace llmc::planfile;

namespace {

int64_t product(const std::vector<int64_t> &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

// Returns the input whose tokens the loader permutes; null if it permutes none.
const InputBindingT *permutedInput(const ProgramT &program) {
  for (const auto &input : program.inputs)
    if (input->permuted_dim == 1 && input->local_shape.size() == 2)
      return input.get();
  return nullptr;
}

// Returns the tokens of a row; 0 if the routes are not those of whole rows.
int64_t tokensOf(const ProgramT &program, const RoutesT &routes) {
  int64_t choices = routes.global_shape.back(), all = product(routes.global_shape) / choices;
  int64_t tokens = routes.global_shape[routes.global_shape.size() - 2];
  if (program.mode == Mode::Train) {
    int64_t rows = program.micro_batches ? program.global_batch / program.micro_batches : 0;
    tokens = rows && all % rows == 0 ? all / rows : 0;
  }
  if (const InputBindingT *input = permutedInput(program)) {
    int64_t row = wholeShape(*program.mesh, *input)[1];
    if (program.mode == Mode::Train && row != tokens)
      return 0;
    tokens = row;
  }
  return tokens && all % tokens == 0 ? tokens : 0;
}

} // namespace

bool RoutesLayout::fits(const ProgramT &program, const RoutesT &routes) { return tokensOf(program, routes) != 0; }

RoutesLayout::RoutesLayout(const ProgramT &program, const RoutesT &routes) {
  int64_t choices = routes.global_shape.back(), tokens = tokensOf(program, routes);
  rowsOfMicroBatch_ = product(routes.global_shape) / (tokens * choices);
  int64_t microBatches = program.mode == Mode::Train ? program.micro_batches : 1;
  shape_ = {rowsOfMicroBatch_ * microBatches, tokens, choices};
  const InputBindingT *input = permutedInput(program);
  if (!input)
    return;
  std::vector<uint64_t> places = permutedIndices(*program.mesh, *input);
  given_.resize(places.size());
  for (size_t i = 0; i < places.size(); ++i)
    given_[places[i]] = static_cast<int64_t>(i);
}

int64_t RoutesLayout::elementOf(int64_t element, uint32_t microBatch) const {
  int64_t token = element / shape_[2], row = token / shape_[1], place = token % shape_[1];
  place = given_.empty() ? place : given_[place];
  return ((microBatch * rowsOfMicroBatch_ + row) * shape_[1] + place) * shape_[2];
}

void planfile::forEachRoutes(const ProgramT &program,
                             const std::function<void(const LaunchT &, const RoutesT &)> &visit) {
  for (const auto &stage : program.stages)
    for (const auto &procedure : stage->procedures)
      for (const auto &instruction : procedure->instructions)
        if (const LaunchT *launch = instruction->body.AsLaunch(); launch && launch->routes)
          visit(*launch, *launch->routes);
}

std::map<std::string, const RoutesT *> planfile::finalRoutes(const ProgramT &program) {
  std::map<std::string, const RoutesT *> routes;
  forEachRoutes(program, [&](const LaunchT &, const RoutesT &one) {
    const RoutesT *&known = routes[one.router];
    if (!known || (one.kind == RoutesKind::Limited && known->kind == RoutesKind::Chosen))
      known = &one;
  });
  return routes;
}

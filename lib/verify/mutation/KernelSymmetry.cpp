// Runs one kernel twice on equal memory.
#include "lib/verify/mutation/KernelSymmetry.h"

#include "runtime/states/Random.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <vector>

namespace llmc::verify {
namespace {

using planfile::Access;
using planfile::LaunchT;

constexpr double kRounding = 1e-5; // error of sums in another order

// Owns memory for each distinct buffer of a launch.
class Places {
public:
  explicit Places(const LaunchT &launch) : launch(launch) {
    for (const auto &operand : launch.operands) {
      auto &place = places[keyOf(*operand)];
      place.resize(std::max<size_t>(place.size(), operand->buffer->size / sizeof(float) + 16));
    }
    uint64_t stream = 0;
    for (auto &[key, place] : places) {
      ++stream;
      for (size_t i = 0; i < place.size(); ++i)
        place[i] = static_cast<float>(runtime::normal(1, stream, i));
    }
  }

  void run(runtime::KernelFunction kernel, uint32_t a, uint32_t b) {
    std::vector<void *> buffers;
    for (const auto &operand : launch.operands)
      buffers.push_back(places[keyOf(*operand)].data());
    std::swap(buffers[a], buffers[b]);
    std::vector<int64_t> scalars;
    for (const auto &scalar : launch.scalars)
      scalars.push_back(scalar->base);
    kernel(buffers.data(), scalars.data(), 0, static_cast<int64_t>(launch.rows));
  }

  const std::vector<float> &at(const planfile::OperandT &operand) { return places[keyOf(operand)]; }

private:
  static std::pair<uint64_t, uint64_t> keyOf(const planfile::OperandT &operand) {
    return {operand.buffer->offset, operand.buffer->slot_stride};
  }

  const LaunchT &launch;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<float>> places;
};

double distance(const std::vector<float> &x, const std::vector<float> &y) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += std::pow(double(x[i]) - double(y[i]), 2);
    size += std::pow(double(x[i]), 2);
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

// Returns whether an op has an integer operand that may be an index; truth values (i1) are none.
bool readsIntegers(std::string_view source) {
  constexpr std::string_view types[] = {"i64>", "i32>", "i16>", "i8>"};
  return std::any_of(std::begin(types), std::end(types), [&](std::string_view type) {
    return source.find(type) != std::string_view::npos;
  });
}

} // namespace

bool isSymmetric(const LaunchT &launch, std::string_view source, runtime::KernelFunction kernel,
                 uint32_t a, uint32_t b) {
  if (readsIntegers(source))
    return false;
  Places usual(launch), exchanged(launch);
  usual.run(kernel, a, a);
  exchanged.run(kernel, a, b);
  for (const auto &operand : launch.operands)
    if (operand->access != Access::Read &&
        !(distance(usual.at(*operand), exchanged.at(*operand)) <= kRounding))
      return false;
  return true;
}

} // namespace llmc::verify

// Draws random launches: a function of graph ops as text, and how to fill its arguments.
#ifndef LLMC_TEST_PASSES_EMIT_CASES_H
#define LLMC_TEST_PASSES_EMIT_CASES_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace llmc::test {

enum class Fill {
  Normal,      // N(0, 1)
  Wide,        // N(0, 1) * 10^U(-3, 1)
  Positive,    // U(0.1, 2)
  Probability, // rows of a softmax
  Ids,         // integers of [low, high)
  Bits,        // 0 or 1
  Infinite,    // N(0, 1), and -inf here and there, or in whole rows
  Shown,       // 1, and 0 here and there, or in whole rows
  Scores,      // N(0, 1) or few numbers, and here and there no number, -inf or -0
};

struct Argument {
  std::string type; // tensor<4x16xf32>
  Fill fill = Fill::Normal;
  int64_t low = 0, high = 1; // of Ids
};

struct Case {
  std::string name; // of the generator
  std::string text; // func.func @case(...) { ... }
  std::vector<Argument> arguments;
  // Writes result i over argument aliases[i] (-1: into its own buffer).
  std::vector<int> aliases;
  // Marks the arguments from here on as scalars of the launch.
  size_t scalarsFrom = SIZE_MAX;
  // Bounds the error relative to the largest magnitude of a result, or to `floor` if that is
  // larger (operands of that size may cancel).
  double tolerance = 2e-6, floor = 1e-5;
};

using Random = std::mt19937_64;

// Represents a generator; `make` draws one case.
struct Generator {
  const char *name;
  Case (*make)(Random &random);
};
std::vector<Generator> generators();

// Returns a case with its float32 tensors in bf16 or f16: all of them, but of attention and rotary
// only those of four dims, since statistics and angles stay. Cases of the optimizer, and those that
// add to an accumulator, are not for low types.
Case inLowType(const Case &test, const std::string &element);

int64_t draw(Random &random, int64_t low, int64_t high); // inclusive
std::vector<int64_t> drawShape(Random &random, int64_t minRank, int64_t maxRank,
                               int64_t maxElements);
std::string tensorType(const std::vector<int64_t> &shape, const std::string &element = "f32");
// Draws "f32", "i64" or "i1".
std::string drawElement(Random &random);
std::string i64Array(const std::vector<int64_t> &values); // array<i64: 1, 2>

// Writes `func.func @case(%a0: ..., ...) -> (...) { body; return %results }`.
class FunctionText {
public:
  // Adds an argument and returns its name, "%aN".
  std::string argument(const std::string &type, Fill fill = Fill::Normal, int64_t low = 0,
                       int64_t high = 1);
  // Adds an argument filled with numbers that suit the element type.
  std::string argument(const std::vector<int64_t> &shape, const std::string &element);
  // Adds `%vN = op operands {attributes} : (types) -> type`; returns "%vN".
  std::string op(const std::string &name, const std::vector<std::string> &operands,
                 const std::vector<std::string> &resultTypes, const std::string &attributes = "",
                 const std::string &prefix = "");
  std::string typeOf(const std::string &value) const;
  Case finish(const std::string &name, const std::vector<std::string> &results);
  std::vector<Argument> arguments;

private:
  std::vector<std::pair<std::string, std::string>> types;
  std::string body;
  int values = 0;
};

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_EMIT_CASES_H

// Parses dims as exporters write them: "batch", "past_sequence_length + sequence_length",
// "2*s0", "8". Tested by test/import/Infer.cpp.
#ifndef LLMC_LIB_ONNX_FILE_DIMEXPRESSION_H
#define LLMC_LIB_ONNX_FILE_DIMEXPRESSION_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace llmc::onnximport {

using Symbols = std::map<std::string, int64_t>;

// Represents an expression of numbers, names, + - * // % and parentheses. A text that is not
// such an expression is one name.
class DimExpression {
public:
  explicit DimExpression(const std::string &text);

  const std::string &text() const { return text_; }
  const std::vector<std::string> &names() const { return names_; } // each once
  bool isName() const { return names_.size() == 1 && names_[0] == text_; }

  // Returns the value; nullopt if a name is not bound, on overflow of 64 bits, and for // and %
  // of a negative number or by one that is not positive.
  std::optional<int64_t> evaluate(const Symbols &symbols) const;
  // Returns the one unbound name and the value, 0 or more, with which the expression is `value`;
  // nullopt if there is no such value, or not exactly one unbound name.
  std::optional<std::pair<std::string, int64_t>> solve(const Symbols &symbols,
                                                       int64_t value) const;

private:
  struct Step { // in postfix order
    char kind;  // 'n' number, 'v' name, or the operator
    int64_t number = 0;
  };
  friend class DimParser;

  std::string text_;
  std::vector<Step> steps_;
  std::vector<std::string> names_;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_DIMEXPRESSION_H

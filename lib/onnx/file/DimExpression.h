// Sizes as exporters write them: "batch", "past_sequence_length + sequence_length",
// "2*s0", "8".
#ifndef LLMC_LIB_ONNX_FILE_DIMEXPRESSION_H
#define LLMC_LIB_ONNX_FILE_DIMEXPRESSION_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace llmc::onnximport {

using Symbols = std::map<std::string, int64_t>;

// Numbers, names, + - * // % and parentheses. What cannot be read as that is one
// name, however odd.
class DimExpression {
public:
  explicit DimExpression(const std::string &text);

  const std::string &text() const { return text_; }
  const std::vector<std::string> &names() const { return names_; } // each once
  bool isName() const { return names_.size() == 1 && names_[0] == text_; }

  // nullopt where a name is not bound, or beyond 64 bits, or divided by 0.
  std::optional<int64_t> evaluate(const Symbols &symbols) const;
  // The value of the one name that is not bound with which the whole is `value`;
  // nullopt if there is none, or more than one name.
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

#include "Cases.h"

#include <algorithm>

namespace llmc::test {

int64_t draw(Random &random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

// Sizes that vectors divide and sizes that they do not, 1 among them.
std::vector<int64_t> drawShape(Random &random, int64_t minRank, int64_t maxRank,
                               int64_t maxElements) {
  std::vector<int64_t> shape(draw(random, minRank, maxRank));
  int64_t left = maxElements;
  for (int64_t &size : shape) {
    int64_t most = std::min<int64_t>(left, draw(random, 0, 3) ? 20 : 300);
    size = draw(random, 0, 5) ? draw(random, 1, std::max<int64_t>(most, 1)) : 1;
    if (draw(random, 0, 3) == 0)
      size = std::min<int64_t>(left, size * 8);
    size = std::max<int64_t>(size, 1);
    left = std::max<int64_t>(left / size, 1);
  }
  std::shuffle(shape.begin(), shape.end(), random);
  return shape;
}

std::string tensorType(const std::vector<int64_t> &shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string drawElement(Random &random) {
  static const char *elements[] = {"f32", "i64", "i1"};
  return elements[draw(random, 0, 2)];
}

std::string i64Array(const std::vector<int64_t> &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}

std::string FunctionText::argument(const std::string &type, Fill fill, int64_t low, int64_t high) {
  std::string name = "%a" + std::to_string(arguments.size());
  arguments.push_back({type, fill, low, high});
  types.push_back({name, type});
  return name;
}

std::string FunctionText::argument(const std::vector<int64_t> &shape, const std::string &element) {
  Fill fill = element == "f32" ? Fill::Normal : element == "i64" ? Fill::Ids : Fill::Bits;
  return argument(tensorType(shape, element), fill, -50, 51);
}

std::string FunctionText::typeOf(const std::string &value) const {
  for (const auto &[name, type] : types)
    if (name == value)
      return type;
  return "";
}

static std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string FunctionText::op(const std::string &name, const std::vector<std::string> &operands,
                             const std::vector<std::string> &resultTypes,
                             const std::string &attributes, const std::string &prefix) {
  std::string result = "%v" + std::to_string(values++);
  std::vector<std::string> operandTypes;
  for (const std::string &operand : operands)
    operandTypes.push_back(typeOf(operand));
  bool isConstant = name == "graph.constant";
  body +=
      "  " + result + (resultTypes.size() > 1 ? ":" + std::to_string(resultTypes.size()) : "") +
      " = " + name + " " + prefix + join(operands) +
      (attributes.empty() ? "" : " {" + attributes + "}") +
      (isConstant ? ""
                  : " : (" + join(operandTypes) + ") -> " +
                        (resultTypes.size() > 1 ? "(" + join(resultTypes) + ")" : resultTypes[0])) +
      "\n";
  if (resultTypes.size() == 1)
    types.push_back({result, resultTypes[0]});
  for (size_t i = 0; i < resultTypes.size(); ++i)
    types.push_back({result + "#" + std::to_string(i), resultTypes[i]});
  return result;
}

Case FunctionText::finish(const std::string &name, const std::vector<std::string> &results) {
  std::vector<std::string> resultTypes, parameters;
  for (const std::string &result : results)
    resultTypes.push_back(typeOf(result));
  for (size_t i = 0; i < arguments.size(); ++i)
    parameters.push_back("%a" + std::to_string(i) + ": " + arguments[i].type);
  Case result;
  result.name = name;
  result.arguments = arguments;
  result.aliases.assign(results.size(), -1);
  result.text = "func.func @case(" + join(parameters) + ") -> (" + join(resultTypes) + ") {\n" +
                body + "  return " + join(results) + " : " + join(resultTypes) + "\n}\n";
  return result;
}

} // namespace llmc::test

#include "lib/onnx/file/DimExpression.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llmc::onnximport;

namespace llmc::onnximport {

// Parses by recursive descent; its functions return false if the text is not an expression.
class DimParser {
public:
  explicit DimParser(DimExpression &out) : out_(out), in_(out.text_) {}

  bool run() { return sum(0) && (skip(), in_.empty()); }

private:
  static constexpr int deepest = 32;
  DimExpression &out_;
  llvm::StringRef in_;

  void skip() { in_ = in_.ltrim(); }
  bool take(llvm::StringRef token) {
    skip();
    return in_.consume_front(token);
  }
  void emit(char kind, int64_t number = 0) { out_.steps_.push_back({kind, number}); }

  bool sum(int depth) {
    if (!product(depth))
      return false;
    while (true) {
      char kind = take("+") ? '+' : take("-") ? '-' : 0;
      if (!kind)
        return true;
      if (!product(depth))
        return false;
      emit(kind);
    }
  }

  bool product(int depth) {
    if (!atom(depth))
      return false;
    while (true) {
      char kind = take("**") ? '?' : take("*") ? '*' : take("//") ? '/' : take("%") ? '%' : 0;
      if (!kind)
        return true;
      if (kind == '?' || !atom(depth))
        return false;
      emit(kind);
    }
  }

  bool atom(int depth) {
    if (depth > deepest)
      return false;
    if (take("("))
      return sum(depth + 1) && take(")");
    if (take("-")) {
      emit('n', 0);
      if (!atom(depth + 1))
        return false;
      emit('-');
      return true;
    }
    skip();
    llvm::StringRef word =
        in_.take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    in_ = in_.drop_front(word.size());
    int64_t number = 0;
    if (word.empty())
      return false;
    if (!llvm::isDigit(word.front())) {
      auto &names = out_.names_;
      size_t at = llvm::find(names, word) - names.begin();
      if (at == names.size())
        names.push_back(word.str());
      emit('v', at);
      return true;
    }
    if (word.getAsInteger(10, number))
      return false;
    emit('n', number);
    return true;
  }
};

} // namespace llmc::onnximport

DimExpression::DimExpression(const std::string &text)
    : text_(llvm::StringRef(text).trim().str()) {
  if (DimParser(*this).run())
    return;
  names_ = {text_};
  steps_ = {{'v', 0}};
}

static bool apply(char kind, int64_t a, int64_t b, int64_t &out) {
  if (kind == '+')
    return !llvm::AddOverflow(a, b, out);
  if (kind == '-')
    return !llvm::SubOverflow(a, b, out);
  if (kind == '*')
    return !llvm::MulOverflow(a, b, out);
  if (b <= 0 || a < 0) // sizes are not negative
    return false;
  out = kind == '/' ? a / b : a % b;
  return true;
}

std::optional<int64_t> DimExpression::evaluate(const Symbols &symbols) const {
  std::vector<int64_t> stack;
  for (const Step &step : steps_) {
    if (step.kind == 'n') {
      stack.push_back(step.number);
    } else if (step.kind == 'v') {
      auto it = symbols.find(names_[step.number]);
      if (it == symbols.end())
        return std::nullopt;
      stack.push_back(it->second);
    } else {
      int64_t b = stack.back(), a = stack[stack.size() - 2];
      stack.pop_back();
      if (!apply(step.kind, a, b, stack.back()))
        return std::nullopt;
    }
  }
  return stack.back();
}

std::optional<std::pair<std::string, int64_t>> DimExpression::solve(const Symbols &symbols,
                                                                    int64_t value) const {
  std::string open;
  for (const std::string &name : names_)
    if (!symbols.count(name)) {
      if (!open.empty())
        return std::nullopt;
      open = name;
    }
  if (open.empty())
    return std::nullopt;
  // Assume that the expression is linear in the unbound name, then check the solution.
  auto at = [&](int64_t x) {
    Symbols all = symbols;
    all[open] = x;
    return evaluate(all);
  };
  auto zero = at(0), one = at(1);
  int64_t slope = 0, rest = 0;
  if (!zero || !one || llvm::SubOverflow(*one, *zero, slope) || !slope ||
      llvm::SubOverflow(value, *zero, rest) || (slope == -1 && rest == INT64_MIN))
    return std::nullopt;
  int64_t x = rest / slope;
  if (x < 0 || at(x) != value)
    return std::nullopt;
  return std::pair(open, x);
}

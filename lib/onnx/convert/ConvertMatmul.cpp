#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

// Converts MatMul, which is NumPy's: batch dims broadcast, a vector is a matrix without that dim.
ConvertResult convertMatMul(NodeAdaptor &call) {
  if (call.size() != 2 || !call.has(0) || !call.has(1) || !call.isFloat(0) || !call.isFloat(1))
    return error("needs two float operands");
  size_t a = call.shape(0).size(), b = call.shape(1).size(), batch = std::max(a, b) - 2;
  if (a < 1 || b < 1 || std::max(a, b) > 22)
    return error("shapes ", toText(call.shape(0)), " and ", toText(call.shape(1)),
                 " do not multiply");
  if (a < 2 && b < 2)
    batch = 0;
  // Rows are x, the summed dim y, columns z; batch dims are a, b, ...
  std::string dims;
  for (size_t i = 0; i < batch; ++i)
    dims += static_cast<char>('a' + i);
  auto tail = [&](size_t rank) { return rank >= 2 ? dims.substr(batch - (rank - 2)) : ""; };
  std::string lhs = tail(a) + (a >= 2 ? "xy" : "y"), rhs = tail(b) + (b >= 2 ? "yz" : "y");
  std::string out = dims + (a >= 2 ? "x" : "") + (b >= 2 ? "z" : "");
  auto product = call.einsum(lhs, rhs, out);
  if (!product)
    return product.takeError();
  return single(*product);
}

ConvertResult convertGemm(NodeAdaptor &call) {
  if (!call.has(0) || !call.has(1) || call.shape(0).size() != 2 || call.shape(1).size() != 2 ||
      !call.isFloat(0) || !call.isFloat(1))
    return error("needs two float matrices");
  auto product = call.einsum(call.node.integer("transA", 0) ? "yx" : "xy",
                             call.node.integer("transB", 0) ? "zy" : "yz", "xz");
  if (!product)
    return product.takeError();
  Value out = *product;
  if (double alpha = call.node.number("alpha", 1); alpha != 1)
    out = call.build.mul(out, call.scalar(alpha));
  if (!call.has(2))
    return single(out);
  auto shape = broadcastShapes(call.shape(2), graph::shapeOf(out));
  if (!shape || !llvm::equal(*shape, graph::shapeOf(out)) || !call.isFloat(2))
    return error("C of shape ", toText(call.shape(2)), " does not broadcast to ",
                 toText(graph::shapeOf(out)));
  Shape biasShape = call.shape(2);
  bool vector = !biasShape.empty() && biasShape.back() == graph::shapeOf(out)[1] &&
                *countElements(biasShape) == biasShape.back();
  Value bias = call.broadcastable(2, vector ? UseKind::Bias : UseKind::Plain);
  if (double beta = call.node.number("beta", 1); beta != 1)
    bias = call.build.mul(bias, call.scalar(beta));
  return single(call.build.add(out, bias));
}

//===-- Einsum ----------------------------------------------------------------===//

// Pairs a tensor with the letters of its dims.
struct Lettered {
  Value value;
  std::string letters;
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

// Expands a term "...ij": the `dots` dims of the ellipsis get the last of `most` digits from '0'
// on. Fails for other characters than letters.
Result<std::string> spelled(llvm::StringRef term, int64_t dots, int64_t most) {
  std::string out;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i).starts_with("...") && most >= 0) {
      for (int64_t k = most - dots; k < most; ++k)
        out += static_cast<char>('0' + k);
      i += 2;
    } else if (llvm::isAlpha(term[i])) {
      out += term[i];
    } else {
      return error("equation has '", std::string(1, term[i]), "', needs letters and '...'");
    }
  }
  return out;
}

int64_t lettersIn(llvm::StringRef term) { return llvm::count_if(term, llvm::isAlpha); }

// Returns the result of an equation without "->": the letters that occur once, in alphabetical
// order.
std::string impliedResult(const std::vector<std::string> &operands) {
  std::map<char, int> times;
  for (const std::string &operand : operands)
    for (char letter : operand)
      ++times[letter];
  std::string out;
  for (auto [letter, count] : times) // digits (the ellipsis) come first
    if (count == 1 || llvm::isDigit(letter))
      out += letter;
  return out;
}

Result<Equation> parseEquation(NodeAdaptor &call) {
  std::string text = call.node.text("equation", "");
  llvm::erase_if(text, [](char c) { return c == ' '; });
  llvm::StringRef equation(text), left = equation, right;
  bool explicitResult = equation.contains("->");
  if (explicitResult)
    std::tie(left, right) = equation.split("->");
  llvm::SmallVector<llvm::StringRef> terms;
  left.split(terms, ',');
  if (terms.size() != call.size() || call.size() == 0)
    return error("equation '", text, "' does not fit ", call.size(), " operands");
  int64_t most = 0;
  std::vector<int64_t> dots;
  for (size_t i = 0; i < terms.size(); ++i) {
    int64_t rank = call.shape(i).size();
    dots.push_back(terms[i].contains("...") ? rank - lettersIn(terms[i]) : 0);
    most = std::max(most, dots.back());
  }
  Equation out;
  if (most > 8)
    return error("an ellipsis of ", most, " dims is not supported");
  for (size_t i = 0; i < terms.size(); ++i) {
    auto letters = dots[i] < 0 ? Result<std::string>(error("")) : spelled(terms[i], dots[i], most);
    if (!letters || letters->size() != call.shape(i).size())
      return error("term '", terms[i].str(), "' does not fit shape ", toText(call.shape(i)));
    out.operands.push_back(*letters);
  }
  auto result = spelled(right, most, most);
  if (!result)
    return result.takeError();
  out.result = explicitResult ? *result : impliedResult(out.operands);
  std::string sorted = out.result;
  llvm::sort(sorted);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return error("equation '", text, "' names a dim of the result twice");
  return out;
}

// Takes the diagonal of each two dims with one letter: every (n + 1)th element of both collapsed.
Lettered diagonals(NodeAdaptor &call, Lettered in) {
  graph::Build &b = call.build;
  for (size_t i = 0; i < in.letters.size(); ++i) {
    size_t j = in.letters.find(in.letters[i], i + 1);
    if (j == std::string::npos)
      continue;
    int64_t rank = in.letters.size();
    Shape order;
    for (int64_t d = 0; d < rank; ++d)
      if (d != int64_t(i) && d != int64_t(j))
        order.push_back(d);
    order.append({int64_t(i), int64_t(j)});
    Value x = b.transpose(in.value, order);
    Shape shape(graph::shapeOf(x));
    int64_t n = shape.back();
    shape.resize(rank - 2);
    shape.push_back(n * n);
    Shape at;
    for (int64_t k = 0; k < n; ++k)
      at.push_back(k * (n + 1));
    std::string letters;
    for (int64_t d : llvm::ArrayRef<int64_t>(order).drop_back())
      letters += in.letters[d];
    in = {selectIndices(call, b.reshape(x, shape), rank - 2, at), letters};
    i = -1; // restart
  }
  return in;
}

// Sums over the dims whose letters are not needed any more.
Lettered summed(NodeAdaptor &call, const Lettered &in, llvm::StringRef needed) {
  Shape dims;
  std::string letters;
  for (auto [d, letter] : llvm::enumerate(in.letters))
    if (needed.contains(letter))
      letters += letter;
    else
      dims.push_back(d);
  if (dims.empty())
    return in;
  return {call.build.reduce(in.value, graph::ReduceKind::sum, dims), letters};
}

// Drops dims of size 1 that are larger in another operand: they broadcast.
Lettered withoutOnes(NodeAdaptor &call, const Lettered &in, const std::map<char, int64_t> &sizes) {
  Shape shape;
  std::string letters;
  for (auto [letter, size] : llvm::zip(in.letters, graph::shapeOf(in.value)))
    if (size == sizes.at(letter)) {
      letters += letter;
      shape.push_back(size);
    }
  return {call.build.reshape(in.value, shape), letters};
}

Lettered multiplied(NodeAdaptor &call, Lettered a, Lettered b, llvm::StringRef needed) {
  a = summed(call, a, b.letters + needed.str());
  b = summed(call, b, a.letters + needed.str());
  std::string out;
  for (char letter : a.letters + b.letters)
    if (needed.contains(letter) && out.find(letter) == std::string::npos)
      out += letter;
  // graph.matmul needs letters: digits become 'Z', 'Y', ...
  auto letters = [](std::string text) {
    for (char &c : text)
      c = llvm::isDigit(c) ? 'Z' - (c - '0') : c;
    return text;
  };
  return {call.build.matmul(letters(a.letters) + "," + letters(b.letters) + "->" + letters(out),
                            a.value, b.value, call.build.builder.getF32Type()),
          out};
}

support::Status checkLetters(const Equation &equation, const std::map<char, int64_t> &sizes) {
  bool high = false, dots = false;
  for (auto [letter, size] : sizes) {
    high |= letter > 'Q' && letter <= 'Z';
    dots |= llvm::isDigit(letter);
  }
  if (high && dots)
    return error("letters R to Z with an ellipsis are not supported");
  for (char letter : equation.result)
    if (!sizes.count(letter))
      return error("a dim of the result stands in no operand");
  return support::ok();
}

ConvertResult convertEinsum(NodeAdaptor &call) {
  if (auto s = needFloats(call, std::max<size_t>(call.size(), 1)); !s)
    return s.takeError();
  auto equation = parseEquation(call);
  if (!equation)
    return equation.takeError();
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < call.size(); ++i)
    for (auto [letter, size] : llvm::zip(equation->operands[i], call.shape(i))) {
      int64_t &known = sizes.try_emplace(letter, size).first->second;
      if (known != size && ((known != 1 && size != 1) || !llvm::isDigit(letter)))
        return error("one letter stands for sizes ", known, " and ", size);
      known = known == 1 ? size : known;
    }
  if (auto s = checkLetters(*equation, sizes); !s)
    return s.takeError();
  std::vector<Lettered> parts;
  for (size_t i = 0; i < call.size(); ++i) {
    Lettered part =
        diagonals(call, {call.value(i, call.size() == 2 ? UseKind::Weight : UseKind::Plain),
                         equation->operands[i]});
    parts.push_back(withoutOnes(call, part, sizes));
  }
  Lettered product = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string needed = equation->result;
    for (size_t k = i + 1; k < parts.size(); ++k)
      needed += parts[k].letters;
    product = multiplied(call, product, parts[i], needed);
  }
  product = summed(call, product, equation->result);
  Shape order;
  for (char letter : equation->result)
    order.push_back(product.letters.find(letter));
  return single(llvm::is_sorted(order) ? product.value
                                       : call.build.transpose(product.value, order));
}

} // namespace

ConvertFunction llmc::onnximport::findMatmulConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"MatMul", convertMatMul}, {"Gemm", convertGemm}, {"Einsum", convertEinsum}};
  return table.lookup(op);
}

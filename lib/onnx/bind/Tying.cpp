#include "lib/onnx/bind/Tying.h"

#include "lib/support/Pages.h"
#include "llvm/ADT/StringSet.h"

#include <cstring>

using namespace llmc;
using namespace llmc::onnximport;

// Returns the stored matrices of the logits: operands of the first matrix products on the paths
// back from the graph's first output.
static std::vector<unsigned> headMatrices(const Model &model, const NodeOrder &order) {
  static const llvm::StringSet<> passed = {"Identity", "Cast", "Reshape", "Add",
                                           "Mul",      "Div",  "Tanh",    "Slice"};
  std::vector<unsigned> found;
  llvm::SmallVector<llvm::StringRef> open = {model.graph().output(0).name()};
  llvm::StringSet<> seen;
  while (!open.empty()) {
    llvm::StringRef name = open.back();
    open.pop_back();
    auto it = order.producer.find(name);
    if (it == order.producer.end() || !seen.insert(name).second)
      continue;
    const Node &node = order.nodes[it->second];
    if (const Branches *branches = model.branchesOf(*node.proto))
      for (auto [i, output] : llvm::enumerate(node.proto->output()))
        if (output == name)
          open.append({branches->whenTrue[i], branches->whenFalse[i]});
    bool product = node.op() == "MatMul" || node.op() == "Gemm";
    if (!product && !passed.contains(node.op()))
      continue;
    for (size_t i = 0; i < std::min<size_t>(node.inputs(), 2); ++i) {
      llvm::StringRef operand = node.input(i);
      if (!product) {
        open.push_back(operand);
        continue;
      }
      // A weight may be transposed or cast on the way.
      for (auto from = order.producer.find(operand);
           from != order.producer.end() && (order.nodes[from->second].op() == "Transpose" ||
                                            order.nodes[from->second].op() == "Cast");
           from = order.producer.find(operand))
        operand = order.nodes[from->second].input(0);
      if (auto tensor = model.find(operand))
        found.push_back(*tensor);
    }
  }
  return found;
}

// Limits the bytes that are compared before their pages are released: a table may be larger than
// the memory.
constexpr int64_t largestPiece = int64_t(64) << 20;

static bool equalBytes(const std::byte *x, const std::byte *y, int64_t size) {
  for (int64_t at = 0; at < size; at += largestPiece) {
    int64_t piece = std::min(largestPiece, size - at);
    if (std::memcmp(x + at, y + at, piece))
      return false;
    support::releasePages(x + at, piece);
    support::releasePages(y + at, piece);
  }
  return true;
}

// Checks whether y, [columns, rows], is the transpose of x, [rows, columns]. Tiles x into strips
// of rows that fit a piece, these into rows of y that fit a piece, and these into small squares.
template <class T>
static bool equalSwapped(const std::byte *x, const std::byte *y, int64_t rows, int64_t columns) {
  constexpr int64_t square = 64, window = 64 << 10; // what the system reads at once
  int64_t strip = std::max<int64_t>(largestPiece / (columns * sizeof(T)), square);
  int64_t chunk = std::max<int64_t>(largestPiece / window, square);
  auto at = [](const std::byte *base, int64_t index) {
    T value;
    std::memcpy(&value, base + index * sizeof(T), sizeof(T));
    return value;
  };
  auto equalSquare = [&](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; ++c)
      for (int64_t r = r0; r < r1; ++r)
        if (at(x, r * columns + c) != at(y, c * rows + r))
          return false;
    return true;
  };
  for (int64_t s0 = 0; s0 < rows; s0 += strip) {
    int64_t s1 = std::min(s0 + strip, rows);
    for (int64_t k0 = 0; k0 < columns; k0 += chunk) {
      int64_t k1 = std::min(k0 + chunk, columns);
      for (int64_t c0 = k0; c0 < k1; c0 += square)
        for (int64_t r0 = s0; r0 < s1; r0 += square)
          if (!equalSquare(r0, std::min(r0 + square, s1), c0, std::min(c0 + square, k1)))
            return false;
      support::releasePages(y + k0 * rows * sizeof(T), (k1 - k0) * rows * sizeof(T));
    }
    support::releasePages(x + s0 * columns * sizeof(T), (s1 - s0) * columns * sizeof(T));
  }
  return true;
}

// Checks whether matrix `b` holds the elements of `a`, at swapped indices if `transposed`.
static bool equalMatrices(const Model &model, const StoredTensor &a, const StoredTensor &b,
                          bool transposed) {
  const std::byte *x = model.bytesOf(a), *y = model.bytesOf(b);
  if (!x || !y)
    return false;
  int width = bitWidth(a.element);
  if (!transposed)
    return equalBytes(x, y, byteCount(a.element, a.count()));
  return width == 8    ? equalSwapped<uint8_t>(x, y, a.shape[0], a.shape[1])
         : width == 16 ? equalSwapped<uint16_t>(x, y, a.shape[0], a.shape[1])
         : width == 32 ? equalSwapped<uint32_t>(x, y, a.shape[0], a.shape[1])
         : width == 64 ? equalSwapped<uint64_t>(x, y, a.shape[0], a.shape[1])
                       : false; // packed elements
}

std::map<unsigned, View> llmc::onnximport::tiedHeads(const Model &model, const NodeOrder &order,
                                                     unsigned table) {
  std::map<unsigned, View> tied;
  const StoredTensor &t = model.stored()[table];
  for (unsigned head : headMatrices(model, order)) {
    const StoredTensor &h = model.stored()[head];
    if (head == table || h.element != t.element || h.shape.size() != 2)
      continue;
    View view = View::whole(table, t.shape);
    if (h.shape == t.shape && equalMatrices(model, t, h, false))
      tied[head] = view;
    else if (h.shape == Shape{t.shape[1], t.shape[0]} && equalMatrices(model, t, h, true))
      tied[head] = view.transposed({1, 0});
  }
  return tied;
}

std::map<unsigned, View> llmc::onnximport::findDuplicateMatrices(const Model &model,
                                                       const TorchNames &names) {
  std::map<unsigned, std::set<std::string>> called;
  for (const Node &node : model.nodes())
    if (auto tensor = node.op() == "MatMul" && names.knows(*node.proto) ? model.find(node.input(1))
                                                                        : std::nullopt)
      if (TorchNames::isGeneratedName(model.stored()[*tensor].name))
        called[*tensor].insert(names.nameOf(*node.proto, "weight"));
  std::map<std::string, unsigned> first;
  std::map<unsigned, View> tied;
  for (const auto &[tensor, all] : called) {
    if (all.size() != 1 || all.begin()->empty())
      continue;
    unsigned holder = first.try_emplace(*all.begin(), tensor).first->second;
    const StoredTensor &a = model.stored()[holder], &b = model.stored()[tensor];
    if (holder != tensor && a.shape == b.shape && a.element == b.element &&
        equalMatrices(model, a, b, false))
      tied[tensor] = View::whole(holder, a.shape);
  }
  return tied;
}

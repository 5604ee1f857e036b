#include "lib/onnx/file/Node.h"

#include <charconv>

using namespace llmc::onnximport;

std::string Node::qualifiedOp() const {
  const std::string &domain = proto->domain();
  bool standard = domain.empty() || domain == "ai.onnx";
  return standard ? proto->op_type() : domain + "::" + proto->op_type();
}

std::string Node::name() const {
  if (!proto->name().empty())
    return proto->name();
  return proto->op_type() + (proto->output_size() ? ":" + proto->output(0) : std::string());
}

std::string Node::label() const { return "node '" + name() + "' (" + proto->op_type() + ")"; }

const ::onnx::AttributeProto *Node::find(llvm::StringRef attribute) const {
  for (const auto &a : proto->attribute())
    if (a.name() == attribute)
      return &a;
  return nullptr;
}

int64_t Node::integer(llvm::StringRef attribute, int64_t fallback) const {
  const auto *a = find(attribute);
  return a && a->has_i() ? a->i() : fallback;
}

double Node::number(llvm::StringRef attribute, double fallback) const {
  const auto *a = find(attribute);
  if (!a || !a->has_f())
    return fallback;
  // Convert by the shortest decimal: the float 1e-5 becomes the double 1e-5.
  char text[64];
  auto end = std::to_chars(text, text + sizeof(text), a->f()).ptr;
  double value = a->f();
  std::from_chars(text, end, value);
  return value;
}

std::string Node::text(llvm::StringRef attribute, llvm::StringRef fallback) const {
  const auto *a = find(attribute);
  return a && a->has_s() ? a->s() : fallback.str();
}

std::optional<llvm::SmallVector<int64_t, 4>> Node::integers(llvm::StringRef attribute) const {
  const auto *a = find(attribute);
  if (!a)
    return std::nullopt;
  return llvm::SmallVector<int64_t, 4>(a->ints().begin(), a->ints().end());
}

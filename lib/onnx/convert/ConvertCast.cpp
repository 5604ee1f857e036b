// Converts casts. Floats are computed as f32 and integers as i64 whatever their types in the file;
// a cast to a float of 8 bits or less rounds, and one to an integer of less than 32 bits wraps,
// since that is its purpose.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

bool isSmall(Element element) { return isFloat(element) && bitWidth(element) <= 8; }

Value castTo(NodeAdaptor &call, Element to) {
  Value x = call.value(0);
  Type type = elementType(x.getContext(), to);
  if (to == Element::Bool) {
    if (call.isBool(0))
      return x;
    return call.build.compare(x, call.scalarLike(0, x), graph::Predicate::ne);
  }
  x = call.build.cast(x, type);
  if (isSmall(to) && to != call.declared(0)) {
    bool saturates = call.node.integer("saturate", 1);
    return roundToSmall(call, x, to, saturates ? Overflow::Saturate : Overflow::Special);
  }
  return wrapToSmall(call, x, to);
}

ConvertResult convertCast(NodeAdaptor &call) {
  std::optional<Element> to;
  if (call.node.op() == "CastLike")
    to = call.has(1) ? std::optional(call.declared(1)) : std::nullopt;
  else
    to = elementOf(static_cast<int32_t>(call.node.integer("to", 0)));
  if (!call.has(0) || !to)
    return error("to ", elementName(static_cast<int32_t>(call.node.integer("to", 0))),
                 " is not supported: to types of numbers is");
  return std::vector<Operand>{ComputedValue(castTo(call, *to), *to)};
}

} // namespace

ConvertFunction llmc::onnximport::findCastConverter(llvm::StringRef op) {
  return op == "Cast" || op == "CastLike" ? convertCast : nullptr;
}

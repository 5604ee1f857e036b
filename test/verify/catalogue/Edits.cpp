#include "test/verify/catalogue/Edits.h"

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace llmc::catalogue {

namespace {

bool isIn(Operation *op, const std::string &name) {
  if (name.empty())
    return true;
  for (Operation *at = op; at; at = at->getParentOp())
    if (auto symbol = at->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
      if (symbol.getValue() == name)
        return true;
  return false;
}

// An Edit of the op at a place.
template <class F>
Edit at(Where where, F f) {
  return [=](ModuleOp module) {
    Operation *op = find(module, where);
    return op && f(op);
  };
}

Attribute scaled(Attribute value, double factor) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return FloatAttr::get(number.getType(), number.getValueAsDouble() * factor);
  if (auto number = dyn_cast<IntegerAttr>(value))
    return IntegerAttr::get(number.getType(), static_cast<int64_t>(number.getInt() * factor));
  auto elements = dyn_cast<DenseElementsAttr>(value);
  if (!elements)
    return {};
  SmallVector<Attribute> list;
  for (Attribute each : elements.getValues<Attribute>())
    list.push_back(scaled(each, factor));
  return DenseElementsAttr::get(elements.getType(), list);
}

template <class Op>
Edit combine(Where where, unsigned result, double number) {
  return at(where, [=](Operation *op) {
    Value value = op->getResult(result);
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !isa<FloatType>(type.getElementType()))
      return false;
    OpBuilder b(op->getContext());
    b.setInsertionPointAfter(op);
    auto scalar = RankedTensorType::get({}, type.getElementType());
    auto constant = graph::ConstantOp::create(
        b, op->getLoc(), scalar,
        DenseElementsAttr::get(scalar, b.getFloatAttr(type.getElementType(), number)));
    Operation *made =
        b.create(op->getLoc(), b.getStringAttr(Op::getOperationName()), {value, constant}, {type});
    if (op->hasAttr("graph.backward"))
      made->setAttr("graph.backward", b.getUnitAttr());
    value.replaceAllUsesExcept(made->getResult(0), made);
    return true;
  });
}

} // namespace

Operation *find(ModuleOp module, const Where &where) {
  Operation *found = nullptr;
  unsigned left = where.n;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op->getName().getStringRef() != where.op || !isIn(op, where.in) || left-- > 0)
      return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

Edit scaleAttribute(Where where, std::string name, double factor) {
  return at(where, [=](Operation *op) {
    Attribute was = op->getAttr(name), value = was ? scaled(was, factor) : Attribute();
    if (!value || value == was)
      return false;
    op->setAttr(name, value);
    return true;
  });
}

Edit setAttribute(Where where, std::string name, std::string value) {
  return at(where, [=](Operation *op) {
    Attribute parsed = parseAttribute(value, op->getContext());
    if (!parsed || op->getAttr(name) == parsed)
      return false;
    op->setAttr(name, parsed);
    return true;
  });
}

Edit removeAttribute(Where where, std::string name) {
  return at(where, [=](Operation *op) { return bool(op->removeAttr(name)); });
}

Edit setEverywhere(Where where, std::string name, std::string value) {
  return [=](ModuleOp module) {
    bool any = false;
    module.walk([&](Operation *op) {
      if (op->getName().getStringRef() != where.op || !isIn(op, where.in))
        return;
      Attribute parsed = parseAttribute(value, op->getContext());
      any |= op->getAttr(name) != parsed;
      op->setAttr(name, parsed);
    });
    return any;
  };
}

Edit exchangeOperands(Where where, unsigned i, unsigned j) {
  return at(where, [=](Operation *op) {
    if (std::max(i, j) >= op->getNumOperands())
      return false;
    Value a = op->getOperand(i), b = op->getOperand(j);
    op->setOperand(i, b);
    op->setOperand(j, a);
    return a != b && a.getType() == b.getType();
  });
}

Edit takeOperand(Where where, unsigned i, Where from, unsigned result) {
  return [=](ModuleOp module) {
    Operation *op = find(module, where), *other = find(module, from);
    if (!op || !other || op->getOperand(i) == other->getResult(result) ||
        op->getOperand(i).getType() != other->getResult(result).getType())
      return false;
    op->setOperand(i, other->getResult(result));
    return true;
  };
}

Edit leaveOut(Where where, unsigned result, unsigned operand) {
  return at(where, [=](Operation *op) {
    if (op->getResult(result).getType() != op->getOperand(operand).getType())
      return false;
    op->getResult(result).replaceAllUsesWith(op->getOperand(operand));
    return true;
  });
}

Edit repeatOwnPart(Where where) {
  return at(where, [](Operation *op) {
    auto gather = dyn_cast<parallel::AllGatherOp>(op);
    if (!gather)
      return false;
    auto part = cast<RankedTensorType>(gather.getOperand().getType());
    auto whole = cast<RankedTensorType>(gather.getType());
    int64_t dim = gather.getDim(), ranks = whole.getDimSize(dim) / part.getDimSize(dim);
    OpBuilder b(op);
    auto made = graph::ConcatOp::create(b, op->getLoc(), whole, SmallVector<Value>(ranks, gather.getOperand()), dim);
    if (Attribute origin = op->getAttr(parallel::kBackward))
      made->setAttr(parallel::kBackward, origin);
    op->replaceAllUsesWith(made);
    op->erase();
    return true;
  });
}

Edit scaleResult(Where where, unsigned result, double factor) {
  return combine<graph::MulOp>(where, result, factor);
}
Edit shiftResult(Where where, unsigned result, double term) {
  return combine<graph::AddOp>(where, result, term);
}

Edit remove(Where where) {
  return at(where, [](Operation *op) {
    if (!op->use_empty())
      return false;
    op->erase();
    return true;
  });
}

Edit postpone(Where where) {
  return at(where, [](Operation *op) {
    Operation *next = op->getNextNode();
    if (!next || next->hasTrait<OpTrait::IsTerminator>())
      return false;
    op->moveAfter(next);
    return true;
  });
}

} // namespace llmc::catalogue

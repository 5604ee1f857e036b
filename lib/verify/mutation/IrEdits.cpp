// Derives edits from the attributes, operands and results of an op.
#include "lib/verify/mutation/IrEdits.h"

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Annotations.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace llmc::verify {

namespace {

// Returns whether an attribute has no meaning of its own: it is informative, names symbols, or
// follows from types.
bool isNoMeaning(StringRef name) {
  if (name.starts_with("parallel."))
    return name != parallel::kIn && name != parallel::kOut && name != parallel::kArgs &&
           name != parallel::kSharding;
  return llvm::is_contained({"sym_name", "type", "function_type", "operandSegmentSizes",
                             "resultSegmentSizes", "aliases", "older_names", "file",
                             "file_offset", "role", "of", "stacked", "count", "init_std", "init"},
                            name) ||
         name.starts_with("graph.");
}

StringRef familyOf(Operation *op, StringRef name, Attribute value) {
  if (name.starts_with("parallel."))
    return "sharding";
  if (isa<graph::ConstantOp>(op))
    return "constant";
  if (name == "axes" || name == "members")
    return "axis";
  if (isa<FloatAttr>(value))
    return "constant";
  if (isa<graph::ReduceKindAttr>(value))
    return "kind";
  if (isa<graph::PredicateAttr>(value))
    return "predicate";
  if (name == "dims" || name == "dim" || name == "permutation" || name == "equation" ||
      name == "split" || name == "concat")
    return "dims";
  return "attribute";
}

// Returns whether the op's two operands commute.
bool commutes(Operation *op) {
  if (isa<graph::AddOp, graph::MulOp, graph::AndOp, graph::OrOp>(op))
    return true;
  auto compare = dyn_cast<graph::CompareOp>(op);
  return compare && (compare.getPredicate() == graph::Predicate::eq ||
                     compare.getPredicate() == graph::Predicate::ne);
}

std::string number(unsigned i) { return std::to_string(i); }

void addAttributes(Operation *op, std::vector<IrEdit> &edits) {
  MLIRContext *context = op->getContext();
  for (NamedAttribute named : op->getAttrDictionary()) {
    if (isNoMeaning(named.getName()))
      continue;
    if (isa<graph::ReduceOp>(op) && named.getName() == "dims")
      continue; // a set, which the result's type determines
    std::string family = familyOf(op, named.getName(), named.getValue()).str();
    for (auto &[word, value] : variantsOf(op, named.getName(), named.getValue()))
      edits.push_back({family, named.getName().str() + " " + word, named.getName(), value, {}});
  }
  // Set unit attributes that are absent.
  auto info = op->getRegisteredInfo();
  for (StringAttr name : info ? info->getAttributeNames() : ArrayRef<StringAttr>()) {
    if (op->getAttr(name))
      continue;
    if (llvm::is_contained({"interleaved", "inverse", "exclusive", "reverse"}, name.getValue()))
      edits.push_back({"attribute", name.str() + " on", name, UnitAttr::get(context), {}});
    if (name == "window")
      edits.push_back(
          {"attribute", "window 2", name, IntegerAttr::get(IntegerType::get(context, 64), 2), {}});
  }
}

// Adds edits that remove a mesh axis from all shardings of an op, as if propagation had not
// reached it.
void addReplication(Operation *op, std::vector<IrEdit> &edits) {
  parallel::MeshAttr mesh = parallel::getMesh(op);
  if (!mesh || !op->hasAttr(parallel::kOut))
    return;
  auto without = [](ArrayAttr shardings, StringAttr axis) {
    SmallVector<Attribute> result;
    for (Attribute each : shardings) {
      auto sharding = dyn_cast<parallel::ShardingAttr>(each);
      if (!sharding) {
        result.push_back(each);
        continue;
      }
      SmallVector<parallel::Axes> dims = parallel::getAxes(sharding);
      for (parallel::Axes &axes : dims)
        llvm::erase(axes, axis);
      parallel::Axes unreduced(sharding.getUnreduced().begin(), sharding.getUnreduced().end());
      llvm::erase(unreduced, axis);
      result.push_back(parallel::makeSharding(sharding.getContext(), dims, unreduced,
                                              sharding.getKind()));
    }
    return ArrayAttr::get(shardings.getContext(), result);
  };
  for (StringAttr axis : mesh.getNames())
    edits.push_back({"sharding", "not cut over " + axis.str(), {}, {}, [=](Operation *op) {
                       for (StringRef name : {parallel::kIn, parallel::kOut})
                         if (auto all = op->getAttrOfType<ArrayAttr>(name))
                           op->setAttr(name, without(all, axis));
                     }});
}

void addRewiring(Operation *op, std::vector<IrEdit> &edits) {
  unsigned count = op->getNumOperands();
  for (unsigned i = 0; i < count && !commutes(op); ++i)
    for (unsigned j = i + 1; j < count; ++j) {
      if (op->getOperand(i).getType() != op->getOperand(j).getType() ||
          op->getOperand(i) == op->getOperand(j))
        continue;
      edits.push_back({"operands", "operands " + number(i) + " and " + number(j) + " exchanged",
                       {}, {}, [i, j](Operation *op) {
                         Value a = op->getOperand(i), b = op->getOperand(j);
                         op->setOperand(i, b);
                         op->setOperand(j, a);
                       }});
      if (count > 8) // Of a long list, take the next one of its type only.
        break;
    }
  for (unsigned r = 0; r < op->getNumResults(); ++r)
    for (unsigned i = 0; i < count && !op->getResult(r).use_empty(); ++i)
      if (op->getOperand(i).getType() == op->getResult(r).getType()) {
        edits.push_back({"dropped", "operand " + number(i) + " in place of result " + number(r),
                         {}, {}, [r, i](Operation *op) {
                           op->getResult(r).replaceAllUsesWith(op->getOperand(i));
                         }});
        if (count > 8)
          break;
      }
}

} // namespace

void IrEdit::make(Operation *op) const {
  if (!attribute)
    rewire(op);
  else if (value)
    op->setAttr(attribute, value);
  else
    op->removeAttr(attribute);
}

std::vector<IrEdit> editsOf(Operation *op, Phase phase) {
  std::vector<IrEdit> edits;
  addAttributes(op, edits);
  if (phase == Phase::Shard)
    addReplication(op, edits);
  addRewiring(op, edits);
  addTypeEdits(op, edits);
  if (phase != Phase::Shard)
    addRouteEdits(op, edits);
  return edits;
}

bool staysValid(Operation *op, const IrEdit &edit, Phase phase) {
  if (edit.family == "operands" || edit.family == "dropped" || edit.family == "types" ||
      edit.family == "routes")
    return true;
  DictionaryAttr before = op->getAttrDictionary();
  edit.make(op);
  bool changed = op->getAttrDictionary() != before;
  bool valid = changed && succeeded(mlir::verify(op, /*verifyRecursively=*/false));
  if (valid && phase == Phase::Shard && op->hasAttr(parallel::kOut) &&
      isa<graph::GraphOpInterface>(op))
    valid = succeeded(parallel::readFactorAxes(op));
  SymbolTableCollection tables;
  if (auto user = dyn_cast<SymbolUserOpInterface>(op); valid && user)
    valid = succeeded(user.verifySymbolUses(tables));
  op->setAttrs(before);
  return valid;
}

} // namespace llmc::verify

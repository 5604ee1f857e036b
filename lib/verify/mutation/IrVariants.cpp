// Lists the values that an attribute might have had.
#include "dialects/graph/Graph.h"
#include "dialects/parallel/Annotations.h"
#include "lib/verify/mutation/IrEdits.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <cmath>

using namespace mlir;

namespace llmc::verify {

namespace {

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

template <class Kind, class KindAttr>
void addKinds(KindAttr attr, uint32_t count, Variants &variants) {
  for (uint32_t i = 0; i < count; ++i) {
    auto kind = static_cast<Kind>(i);
    if (kind != attr.getValue())
      variants.push_back({stringifyEnum(attr.getValue()).str() + " -> " + stringifyEnum(kind).str(),
                          KindAttr::get(attr.getContext(), kind)});
  }
}

void addFloats(FloatAttr attr, Variants &variants) {
  double value = attr.getValueAsDouble();
  auto offer = [&](double other) {
    variants.push_back({text(value) + " -> " + text(other), FloatAttr::get(attr.getType(), other)});
  };
  if (!std::isfinite(value) || value == 0)
    return offer(std::isfinite(value) ? 1 : 0);
  offer(value * 1.01);
  offer(value * 0.99);
}

void addIntegers(IntegerAttr attr, Variants &variants) {
  if (attr.getType().isInteger(1)) {
    variants.push_back({attr.getValue().isZero() ? "on" : "off",
                        BoolAttr::get(attr.getContext(), attr.getValue().isZero())});
    return;
  }
  int64_t value = attr.getInt();
  for (int64_t other : {value + 1, value - 1})
    variants.push_back({std::to_string(value) + " -> " + std::to_string(other),
                        IntegerAttr::get(attr.getType(), other)});
}

void addLists(DenseI64ArrayAttr attr, Variants &variants) {
  ArrayRef<int64_t> list = attr.asArrayRef();
  auto offer = [&](std::string word, ArrayRef<int64_t> other) {
    variants.push_back({std::move(word), DenseI64ArrayAttr::get(attr.getContext(), other)});
  };
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = i + 1; j < list.size(); ++j)
      if (list[i] != list[j]) {
        SmallVector<int64_t> other(list);
        std::swap(other[i], other[j]);
        offer("entries " + std::to_string(i) + " and " + std::to_string(j) + " exchanged", other);
      }
    for (int64_t more : {1, -1}) {
      SmallVector<int64_t> other(list);
      other[i] += more;
      offer("entry " + std::to_string(i) + (more > 0 ? " one more" : " one less"), other);
    }
  }
}

// Adds variants with all elements slightly off, and of several elements one alone.
void addElements(DenseElementsAttr attr, Variants &variants) {
  Type element = attr.getElementType();
  auto offer = [&](std::string word, auto change) {
    SmallVector<Attribute> values(attr.getValues<Attribute>());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = change(i, values[i]);
    variants.push_back({std::move(word), DenseElementsAttr::get(attr.getType(), values)});
  };
  if (isa<FloatType>(element)) {
    auto times = [&](double factor) {
      return [=](size_t, Attribute value) -> Attribute {
        double was = cast<FloatAttr>(value).getValueAsDouble();
        return FloatAttr::get(element, was == 0 ? factor - 1 : was * factor);
      };
    };
    offer("1 % more", times(1.01));
    offer("1 % less", times(0.99));
    if (attr.getNumElements() > 1)
      offer("its middle element 1 % more", [&](size_t i, Attribute value) {
        return i == size_t(attr.getNumElements()) / 2 ? times(1.01)(i, value) : value;
      });
    return;
  }
  for (int64_t more : {1, -1})
    offer(more > 0 ? "one more" : "one less", [&](size_t, Attribute value) -> Attribute {
      return IntegerAttr::get(element, cast<IntegerAttr>(value).getValue() + uint64_t(more));
    });
}

// Adds variants of an equation that exchange two letters of one tensor.
void addEquations(StringAttr attr, Variants &variants) {
  std::string was = attr.str();
  for (size_t i = 0; i < was.size(); ++i)
    for (size_t j = i + 1; j < was.size() && std::isalpha(was[i]) && std::isalpha(was[j]); ++j) {
      std::string other = was;
      std::swap(other[i], other[j]);
      variants.push_back({was + " -> " + other, StringAttr::get(attr.getContext(), other)});
    }
}

// Adds variants with another axis of the mesh, and with one axis fewer.
void addAxes(Operation *op, ArrayAttr attr, Variants &variants) {
  parallel::MeshAttr mesh = parallel::getMesh(op);
  for (size_t i = 0; mesh && i < attr.size(); ++i) {
    for (StringAttr axis : mesh.getNames())
      if (!llvm::is_contained(attr, axis)) {
        SmallVector<Attribute> other(attr.begin(), attr.end());
        other[i] = axis;
        variants.push_back({cast<StringAttr>(attr[i]).str() + " -> " + axis.str(),
                            ArrayAttr::get(attr.getContext(), other)});
      }
    if (attr.size() > 1) {
      SmallVector<Attribute> other(attr.begin(), attr.end());
      other.erase(other.begin() + static_cast<long>(i));
      variants.push_back({"without " + cast<StringAttr>(attr[i]).str(),
                          ArrayAttr::get(attr.getContext(), other)});
    }
  }
}

// Returns shardings with an axis less, an axis at another dimension, or without a partial sum.
Variants variantsOf(parallel::ShardingAttr sharding) {
  Variants variants;
  MLIRContext *context = sharding.getContext();
  SmallVector<parallel::Axes> dims = parallel::getAxes(sharding);
  auto offer = [&](std::string word, ArrayRef<parallel::Axes> cut,
                   ArrayRef<StringAttr> unreduced) {
    variants.push_back(
        {std::move(word), parallel::makeSharding(context, cut, unreduced, sharding.getKind())});
  };
  for (size_t d = 0; d < dims.size(); ++d)
    for (StringAttr axis : dims[d]) {
      SmallVector<parallel::Axes> less(dims);
      llvm::erase(less[d], axis);
      offer("dim " + std::to_string(d) + " not over " + axis.str(), less, sharding.getUnreduced());
      for (size_t e = 0; e < dims.size(); ++e) {
        SmallVector<parallel::Axes> moved(less);
        moved[e].push_back(axis);
        if (e != d)
          offer(axis.str() + " at dim " + std::to_string(e) + " for " + std::to_string(d), moved,
                sharding.getUnreduced());
      }
    }
  for (StringAttr axis : sharding.getUnreduced()) {
    parallel::Axes left(sharding.getUnreduced().begin(), sharding.getUnreduced().end());
    llvm::erase(left, axis);
    offer("not unreduced over " + axis.str(), dims, left);
  }
  return variants;
}

void addArrays(Operation *op, StringAttr name, ArrayAttr attr, Variants &variants) {
  if (name == "axes")
    return addAxes(op, attr, variants);
  for (size_t i = 0; i < attr.size(); ++i) {
    auto offer = [&](const std::string &word, Attribute value) {
      SmallVector<Attribute> other(attr.begin(), attr.end());
      other[i] = value;
      variants.push_back({"of " + std::to_string(i) + ": " + word,
                          ArrayAttr::get(attr.getContext(), other)});
    };
    if (auto sharding = dyn_cast<parallel::ShardingAttr>(attr[i]))
      for (auto &[word, value] : variantsOf(sharding))
        offer(word, value);
    if (auto view = dyn_cast<graph::ViewAttr>(attr[i])) {
      SmallVector<int64_t> strides(view.getStrides());
      offer("offset one more", graph::ViewAttr::get(attr.getContext(), view.getSource(),
                                                    view.getOffset() + 1, strides));
      if (strides.size() == 2 && strides[0] != strides[1]) {
        std::swap(strides[0], strides[1]);
        offer("strides exchanged", graph::ViewAttr::get(attr.getContext(), view.getSource(),
                                                        view.getOffset(), strides));
      }
    }
  }
}

} // namespace

Variants variantsOf(Operation *op, StringAttr name, Attribute value) {
  Variants variants;
  if (auto kind = dyn_cast<graph::ReduceKindAttr>(value))
    addKinds<graph::ReduceKind>(kind, 3, variants);
  else if (auto predicate = dyn_cast<graph::PredicateAttr>(value))
    addKinds<graph::Predicate>(predicate, 6, variants);
  else if (auto form = dyn_cast<graph::GeluFormAttr>(value))
    addKinds<graph::GeluForm>(form, 2, variants);
  else if (auto number = dyn_cast<FloatAttr>(value))
    addFloats(number, variants);
  else if (auto integer = dyn_cast<IntegerAttr>(value))
    addIntegers(integer, variants);
  else if (auto list = dyn_cast<DenseI64ArrayAttr>(value))
    addLists(list, variants);
  else if (auto elements = dyn_cast<DenseElementsAttr>(value))
    addElements(elements, variants);
  else if (auto sharding = dyn_cast<parallel::ShardingAttr>(value))
    variants = variantsOf(sharding);
  else if (auto array = dyn_cast<ArrayAttr>(value))
    addArrays(op, name, array, variants);
  else if (auto string = dyn_cast<StringAttr>(value); string && name == "equation")
    addEquations(string, variants);
  else if (isa<UnitAttr>(value))
    variants.push_back({"off", Attribute()});
  return variants;
}

} // namespace llmc::verify

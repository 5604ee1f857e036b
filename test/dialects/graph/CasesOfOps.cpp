// One random case for every op of the dialect.
#include "Cases.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace llmc::graph::test {

using Cases = std::vector<Case>;

static RankedTensorType typed(ArrayRef<int64_t> shape, Type element) {
  return RankedTensorType::get(shape, element);
}
static Shape joined(Shape a, const Shape &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
static Shape without(const Shape &shape, const Shape &dims) {
  Shape kept;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!llvm::is_contained(dims, static_cast<int64_t>(i)))
      kept.push_back(shape[i]);
  return kept;
}

// An op whose result type is inferred, on all arguments.
template <typename Op, typename... Attributes>
static Case inferred(std::string name, std::vector<Argument> arguments, Case::Gradient gradient,
                     Attributes... attributes) {
  auto build = [=](OpBuilder &b, Location l, ValueRange v) -> Operation * {
    if constexpr (requires { Op::create(b, l, v[0], v[0], v[0], attributes...); })
      return Op::create(b, l, v[0], v[1], v[2], attributes...);
    else if constexpr (requires { Op::create(b, l, v[0], v[0], attributes...); })
      return Op::create(b, l, v[0], v[1], attributes...);
    else
      return Op::create(b, l, v[0], attributes...);
  };
  return {std::move(name), std::move(arguments), build, gradient};
}

template <typename Op> static void binary(Cases &cases, Random &random, std::string name) {
  Shape shape = random.shape(0, 3);
  bool first = random.chance(2);
  Shape lhs = first ? shape : random.smaller(shape), rhs = first ? random.smaller(shape) : shape;
  cases.push_back(inferred<Op>(name, {{Argument::Any, lhs}, {Argument::Positive, rhs}},
                               Case::Checked));
}
template <typename Op>
static void unary(Cases &cases, Random &random, std::string name,
                  Argument::Kind kind = Argument::Any, Case::Gradient gradient = Case::Checked) {
  cases.push_back(inferred<Op>(name, {{kind, random.shape(0, 3)}}, gradient));
}

static void drawElementwise(Cases &cases, Random &random) {
  binary<AddOp>(cases, random, "add");
  binary<SubOp>(cases, random, "sub");
  binary<MulOp>(cases, random, "mul");
  binary<DivOp>(cases, random, "div");
  binary<MaximumOp>(cases, random, "maximum");
  binary<MinimumOp>(cases, random, "minimum");
  binary<RemOp>(cases, random, "rem");
  cases.push_back(inferred<PowerOp>("power", {{Argument::Positive, random.shape(1, 1)},
                                              {Argument::Any, {}}}, Case::Checked));
  unary<NegOp>(cases, random, "neg");
  unary<AbsOp>(cases, random, "abs");
  unary<SinOp>(cases, random, "sin");
  unary<CosOp>(cases, random, "cos");
  unary<SignOp>(cases, random, "sign", Argument::Any, Case::Zero);
  unary<FloorOp>(cases, random, "floor", Argument::Any, Case::Zero);
  unary<CeilOp>(cases, random, "ceil", Argument::Any, Case::Zero);
  unary<RoundOp>(cases, random, "round", Argument::Any, Case::Zero);
  Argument integers{Argument::Ids, random.shape(0, 3), 5};
  cases.push_back(inferred<AbsOp>("abs of integers", {integers}, Case::Zero));
  cases.push_back(inferred<NegOp>("neg of integers", {integers}, Case::Zero));
  cases.push_back(inferred<SignOp>("sign of integers", {integers}, Case::Zero));
  cases.push_back(inferred<RemOp>("rem of integers", {integers, integers}, Case::Zero));
  unary<ExpOp>(cases, random, "exp");
  unary<LogOp>(cases, random, "log", Argument::Positive);
  unary<SqrtOp>(cases, random, "sqrt", Argument::Positive);
  unary<RsqrtOp>(cases, random, "rsqrt", Argument::Positive);
  unary<TanhOp>(cases, random, "tanh");
  unary<ErfOp>(cases, random, "erf");
  unary<SigmoidOp>(cases, random, "sigmoid");
  unary<SoftplusOp>(cases, random, "softplus");
  unary<ReluOp>(cases, random, "relu");
  for (double exponent : {0.0, 1.0, 2.0, 3.0, 0.5, -1.0})
    cases.push_back(inferred<PowOp>("pow", {{Argument::Positive, random.shape(0, 3)}},
                                    Case::Checked, APFloat(exponent)));
  for (GeluForm form : {GeluForm::tanh, GeluForm::erf}) {
    Shape shape = random.shape(0, 3);
    cases.push_back(inferred<GeluOp>("gelu", {{Argument::Any, shape}}, Case::Checked, form));
    cases.push_back(inferred<GeluGradOp>(
        "gelu_grad", {{Argument::Any, shape}, {Argument::Any, shape}}, Case::None, form));
  }
  Shape shape = random.shape(0, 3), other = random.smaller(shape);
  Argument a{Argument::Logical, shape}, b{Argument::Logical, other};
  cases.push_back(inferred<AndOp>("and", {a, b}, Case::Zero));
  cases.push_back(inferred<OrOp>("or", {b, a}, Case::Zero));
  cases.push_back(inferred<NotOp>("not", {a}, Case::Zero));
  for (Predicate predicate : {Predicate::eq, Predicate::ne, Predicate::lt, Predicate::le,
                              Predicate::gt, Predicate::ge})
    cases.push_back(inferred<CompareOp>(
        "compare", {{Argument::Ids, shape, 2}, {Argument::Ids, other, 2}}, Case::Zero, predicate));
  cases.push_back(inferred<SelectOp>(
      "select", {b, {Argument::Any, random.smaller(shape)}, {Argument::Any, shape}},
      Case::Checked));
  cases.push_back({"cast", {{Argument::Any, shape}}, [=](OpBuilder &b, Location l, ValueRange v) {
                     return CastOp::create(b, l, typed(shape, b.getF32Type()), v[0]);
                   }});
  cases.push_back({"cast to integer",
                   {{Argument::Any, shape}},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return CastOp::create(b, l, typed(shape, b.getI32Type()), v[0]);
                   },
                   Case::Zero});
}

static void drawConstants(Cases &cases, Random &random) {
  Shape shape = random.shape(1, 3);
  int64_t dim = random.below(shape.size());
  Argument offset{Argument::Ids, {}, 1};
  cases.push_back({"iota",
                   {offset},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return IotaOp::create(b, l, typed(shape, b.getI64Type()), v[0], dim);
                   },
                   Case::Zero});
  cases.push_back({"constant",
                   {},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     auto type = typed(shape, b.getF64Type());
                     return ConstantOp::create(b, l, type, DenseElementsAttr::get(type, 1.5));
                   },
                   Case::Zero});
}

static void drawMovement(Cases &cases, Random &random) {
  // The same factors grouped in two ways; shuffled, the groups need not nest.
  Shape factors;
  for (int64_t i = 0; i < 5; ++i)
    factors.push_back(random.between(1, 3));
  auto grouped = [&] {
    Shape shape{1};
    for (int64_t factor : factors)
      if (random.chance(2))
        shape.push_back(factor);
      else
        shape.back() *= factor;
    return shape;
  };
  Shape from = grouped();
  if (random.chance(3))
    std::swap(factors[0], factors[3]);
  Shape to = grouped();
  cases.push_back({"reshape", {{Argument::Any, from}}, [=](OpBuilder &b, Location l, ValueRange v) {
                     return ReshapeOp::create(b, l, typed(to, b.getF64Type()), v[0]);
                   }});
  Shape shape = random.shape(1, 4), order = random.permutation(shape.size());
  cases.push_back({"transpose",
                   {{Argument::Any, shape}},
                   [=](OpBuilder &b, Location l, ValueRange v) -> Operation * {
                     return Build(b, l).transpose(v[0], order).getDefiningOp();
                   }});
  Shape small = random.smaller(shape);
  cases.push_back({"broadcast", {{Argument::Any, small}}, [=](OpBuilder &b, Location l,
                                                            ValueRange v) {
                     return BroadcastOp::create(b, l, typed(shape, b.getF64Type()), v[0]);
                   }});
}

static void drawSlicing(Cases &cases, Random &random) {
  Shape shape = random.shape(1, 3), starts, limits, steps, sliced, low, high, interior, padded;
  for (int64_t size : shape) {
    bool whole = random.chance(2);
    starts.push_back(whole ? 0 : random.below(size));
    limits.push_back(whole ? size : random.between(starts.back() + 1, size));
    steps.push_back(whole ? 1 : random.between(1, 3));
    sliced.push_back((limits.back() - starts.back() + steps.back() - 1) / steps.back());
    low.push_back(whole ? 0 : random.below(3));
    high.push_back(whole ? 0 : random.below(3));
    interior.push_back(whole ? 0 : random.below(3));
    padded.push_back(low.back() + high.back() + size + (size - 1) * interior.back());
  }
  cases.push_back({"slice", {{Argument::Any, shape}}, [=](OpBuilder &b, Location l, ValueRange v) {
                     return SliceOp::create(b, l, typed(sliced, b.getF64Type()), v[0], starts,
                                            limits, steps);
                   }});
  cases.push_back({"pad", {{Argument::Any, shape}}, [=](OpBuilder &b, Location l, ValueRange v) {
                     return PadOp::create(b, l, typed(padded, b.getF64Type()), v[0], low, high,
                                          interior);
                   }});
  int64_t dim = random.below(shape.size());
  std::vector<Argument> parts;
  for (int64_t i = random.between(1, 3); i-- > 0;) {
    shape[dim] = random.size();
    parts.push_back({Argument::Any, shape});
  }
  cases.push_back({"concat", parts, [=](OpBuilder &b, Location l, ValueRange v) -> Operation * {
                     return Build(b, l).concat(SmallVector<Value>(v), dim).getDefiningOp();
                   }});
}

static void drawIndex(Cases &cases, Random &random) {
  Shape idsShape = random.shape(0, 2), inner = random.shape(0, 2);
  int64_t rows = random.size();
  Shape table = joined({rows}, inner), gathered = joined(idsShape, inner);
  Argument ids{Argument::Ids, idsShape, rows}, offset{Argument::Ids, {}, 1};
  cases.push_back({"gather", {{Argument::Any, table}, ids, offset},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return GatherOp::create(b, l, typed(gathered, b.getF64Type()), v[0], v[1],
                                             v[2]);
                   }});
  cases.push_back({"scatter_add", {ids, {Argument::Any, gathered}, offset},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return ScatterAddOp::create(b, l, typed(table, b.getF64Type()), v[0], v[1],
                                                 v[2]);
                   }});
  Shape wide = joined(idsShape, {rows});
  cases.push_back({"take_along", {{Argument::Any, wide}, ids, offset},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return TakeAlongOp::create(b, l, typed(idsShape, b.getF64Type()), v[0], v[1],
                                                v[2]);
                   }});
  cases.push_back({"one_hot", {ids, {Argument::Any, idsShape}, offset},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return OneHotOp::create(b, l, typed(wide, b.getF64Type()), v[0], v[1], v[2]);
                   }});
  int64_t dim = random.below(wide.size()), valid = random.below(wide[dim] + 1);
  double value = random.chance(2) ? 0 : 7;
  cases.push_back({"mask_tail", {{Argument::Any, wide}, offset},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return MaskTailOp::create(b, l, v[0].getType(), v[0], v[1], dim, valid,
                                               APFloat(value));
                   }});
}

static void drawDropout(Cases &cases, Random &random) {
  Shape shape = random.shape(3, 3);
  Argument x{Argument::Any, shape}, key{Argument::Ids, {shape[0], 1, 1}, 1000}, layer{Argument::Ids, {}, 9},
      position{Argument::Ids, {shape[1], 1}, 100}, element{Argument::Ids, {shape[2]}, 100};
  double rate = random.chance(3) ? 0 : 0.4;
  cases.push_back({"dropout", {x, key, layer, position, element}, [=](OpBuilder &b, Location l, ValueRange v) {
                     return DropoutOp::create(b, l, v[0].getType(), v[0], v[1], v[2], v[3], v[4],
                                              APFloat(rate), 1);
                   }});
}

static void drawReductions(Cases &cases, Random &random) {
  for (ReduceKind kind : {ReduceKind::sum, ReduceKind::max, ReduceKind::sum_squares}) {
    Shape shape = random.shape(1, 4), dims;
    for (size_t i = 0; i < shape.size(); ++i)
      if (random.chance(2))
        dims.push_back(i);
    Shape kept = without(shape, dims);
    cases.push_back({"reduce " + stringifyReduceKind(kind).str(),
                     {{kind == ReduceKind::max ? Argument::Distinct : Argument::Any, shape}},
                     [=](OpBuilder &b, Location l, ValueRange v) {
                       return ReduceOp::create(b, l, typed(kept, b.getF64Type()), v[0], kind, dims);
                     }});
  }
  Argument x{Argument::Any, random.shape(1, 3)};
  cases.push_back({"softmax", {x}, [](OpBuilder &b, Location l, ValueRange v) {
                     return SoftmaxOp::create(b, l, v[0].getType(), v[0]);
                   }});
  cases.push_back({"softmax_grad",
                   {x, x},
                   [](OpBuilder &b, Location l, ValueRange v) {
                     return SoftmaxGradOp::create(b, l, v[0].getType(), v[0], v[1]);
                   },
                   Case::None});
}

static void drawMatmul(Cases &cases, Random &random) {
  static const char *equations[] = {"bsd,de->bse",     "ab,bc->ac",   "bshd,bthd->bhst",
                                    "bhst,bthd->bshd", "a,a->",       "a,b->ab",
                                    "xa,xa->a",        "bsd,bse->de", "bsd,hdk->bhsk"};
  std::string equation = equations[random.below(std::size(equations))];
  std::map<char, int64_t> sizes;
  Shape shapes[2];
  size_t at = 0;
  for (char c : StringRef(equation).take_until([](char x) { return x == '-'; })) {
    if (c == ',') {
      ++at;
      continue;
    }
    if (!sizes.count(c))
      sizes[c] = random.size();
    shapes[at].push_back(sizes[c]);
  }
  cases.push_back({"matmul " + equation,
                   {{Argument::Any, shapes[0]}, {Argument::Any, shapes[1]}},
                   [=](OpBuilder &b, Location l, ValueRange v) -> Operation * {
                     return Build(b, l)
                         .matmul(equation, v[0], v[1], b.getF64Type())
                         .getDefiningOp();
                   }});
}

static void drawNorms(Cases &cases, Random &random) {
  Shape rows = random.shape(0, 2), vector{random.between(2, 6)}, shape = joined(rows, vector);
  Argument x{Argument::Any, shape}, scale{Argument::Any, vector}, mean{Argument::Any, rows},
      rstd{Argument::Positive, rows};
  cases.push_back({"layer_norm", {x, scale, scale}, [=](OpBuilder &b, Location l, ValueRange v) {
                     Type f64 = b.getF64Type();
                     return LayerNormOp::create(b, l, typed(shape, f64), typed(rows, f64),
                                                typed(rows, f64), v[0], v[1], v[2], APFloat(1e-3));
                   }});
  cases.push_back({"layer_norm_grad",
                   {x, x, scale, mean, rstd},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return LayerNormGradOp::create(b, l, v[0].getType(), v[0], v[1], v[2], v[3],
                                                    v[4]);
                   },
                   Case::None});
  cases.push_back({"layer_norm_grad_scale",
                   {x, x, mean, rstd},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return LayerNormGradScaleOp::create(b, l, typed(vector, b.getF64Type()), v[0],
                                                         v[1], v[2], v[3]);
                   },
                   Case::None});
}

static void drawRmsNorm(Cases &cases, Random &random) {
  Shape rows = random.shape(0, 3), vector{random.between(2, 6)}, shape = joined(rows, vector);
  Argument x{Argument::Any, shape}, scale{Argument::Any, vector}, rstd{Argument::Positive, rows};
  cases.push_back({"rms_norm", {x, scale}, [=](OpBuilder &b, Location l, ValueRange v) {
                     return RmsNormOp::create(b, l, v[0].getType(), typed(rows, b.getF64Type()),
                                              v[0], v[1], APFloat(1e-3));
                   }});
  cases.push_back({"rms_norm_grad", {x, x, scale, rstd},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return RmsNormGradOp::create(b, l, v[0].getType(), v[0], v[1], v[2], v[3]);
                   },
                   Case::None});
  cases.push_back({"rms_norm_grad_scale", {x, x, rstd},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return RmsNormGradScaleOp::create(b, l, typed(vector, b.getF64Type()), v[0],
                                                       v[1], v[2]);
                   },
                   Case::None});
}

static void drawRotary(Cases &cases, Random &random) {
  int64_t half = random.between(1, 3);
  Shape x{random.size(), random.size(), random.size(), 2 * half + random.below(3)};
  Argument table{Argument::Any, {random.chance(2) ? 1 : x[0], x[1], half}, 0, true};
  for (bool interleaved : {false, true})
    cases.push_back({interleaved ? "interleaved rotary" : "rotary",
                     {{Argument::Any, x}, table, table},
                     [=, inverse = random.chance(2)](OpBuilder &b, Location l, ValueRange v) {
                       return RotaryOp::create(b, l, v[0].getType(), v[0], v[1], v[2],
                                               interleaved, inverse);
                     }});
}

static void drawCumsum(Cases &cases, Random &random) {
  Shape shape = random.shape(1, 3);
  int64_t dim = random.below(shape.size());
  for (Argument::Kind kind : {Argument::Any, Argument::Ids})
    cases.push_back({"cumsum", {{kind, shape, 3}},
                     [=, exclusive = random.chance(2), reverse = random.chance(2)](
                         OpBuilder &b, Location l, ValueRange v) {
                       return CumsumOp::create(b, l, v[0].getType(), v[0], dim, exclusive, reverse);
                     }});
}

// Everything that hides keys: rows other than keys, an offset, a window, a mask
// of either kind whose dimensions may be 1; and a softcap.
static void drawAttention(Cases &cases, Random &random) {
  bool causal = !random.chance(3);
  int64_t batch = random.between(1, 2), rows = random.between(1, 4), kvHeads = random.between(1, 2),
          heads = kvHeads * random.between(1, 2), dim = random.between(1, 3),
          keys = random.between(1, 6), offset = causal ? random.below(4) : 0;
  double softcap = random.chance(2) ? 1.5 : 0;
  std::optional<int64_t> window;
  if (causal && random.chance(2))
    window = random.between(1, 4);
  auto or1 = [&](int64_t size) { return random.chance(2) ? 1 : size; };
  Argument q{Argument::Any, {batch, rows, heads, dim}}, k{Argument::Any, {batch, keys, kvHeads, dim}},
      lse{Argument::Any, {batch, rows, heads}},
      mask{random.chance(2) ? Argument::Logical : Argument::Any,
           {or1(batch), or1(heads), or1(rows), keys}, 0, true};
  std::vector<Argument> forward{q, k, k}, backward{q, q, k, k, q, lse};
  bool masked = !random.chance(4), drops = random.chance(2), placed = causal && random.chance(2);
  double rate = drops ? 0.3 : 0;
  SmallVector<Argument> further;
  if (masked)
    further.push_back(mask);
  if (placed)
    further.append({{Argument::Ids, {rows}, 8}, {Argument::Ids, {keys}, 8}});
  if (drops)
    further.append({{Argument::Ids, {q.shape[0]}, 1000}, {Argument::Ids, {}, 9}, {Argument::Ids, {q.shape[1]}, 50},
                    {Argument::Ids, {q.shape[2]}, 90}, {Argument::Ids, {k.shape[1]}, 30}});
  llvm::append_range(forward, further);
  llvm::append_range(backward, further);
  cases.push_back({"attention", forward, [=](OpBuilder &b, Location l, ValueRange v) {
                     Type types[] = {v[0].getType(), typed(lse.shape, b.getF64Type())};
                     auto op = AttentionOp::create(b, l, types, v[0], v[1], v[2], APFloat(0.7), causal,
                                                   masked ? v[3] : Value(), offset, window, softcap);
                     op.getFurtherMutable().assign(v.drop_front(3));
                     op.setDropout(APFloat(rate));
                     return op;
                   }});
  cases.push_back({"attention_grad", backward,
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return AttentionGradOp::create(
                         b, l, v[1].getType(), v[2].getType(), v[3].getType(), v[0], v[1], v[2],
                         v[3], v[4], v[5], v.drop_front(6), b.getF64FloatAttr(0.7),
                         b.getBoolAttr(causal), b.getI64IntegerAttr(offset),
                         window ? b.getI64IntegerAttr(*window) : IntegerAttr(),
                         b.getF64FloatAttr(softcap), b.getF64FloatAttr(rate), b.getI64IntegerAttr(0), UnitAttr());
                   },
                   Case::None});
}

static void drawOptimizer(Cases &cases, Random &random) {
  Argument x{Argument::Any, random.shape(0, 3)}, v{Argument::Positive, x.shape},
      scalar{Argument::Fraction, {}};
  std::vector<Argument> arguments{x, x, x, v};
  arguments.resize(11, scalar);
  bool decay = random.chance(2);
  cases.push_back({"adamw", arguments,
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return AdamWOp::create(b, l, v[0].getType(), v[2].getType(), v[3].getType(),
                                            v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8],
                                            v[9], v[10], decay);
                   },
                   Case::None});
}

std::vector<Case> drawCases(Random &random) {
  Cases cases;
  drawElementwise(cases, random);
  drawConstants(cases, random);
  drawMovement(cases, random);
  drawSlicing(cases, random);
  drawIndex(cases, random);
  drawDropout(cases, random);
  drawReductions(cases, random);
  drawMatmul(cases, random);
  drawNorms(cases, random);
  drawRmsNorm(cases, random);
  drawAttention(cases, random);
  drawRotary(cases, random);
  drawCumsum(cases, random);
  drawOptimizer(cases, random);
  drawExperts(cases, random);
  return cases;
}

} // namespace llmc::graph::test

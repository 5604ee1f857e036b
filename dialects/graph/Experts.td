// Defines mixtures of experts. Routes say which experts a token takes: [..., token, choice] -> number of
// an expert, or less than 0 (or past the last) for none. In the global program everything between a router and the
// weighted sum over choices keeps the tokens' own order; only products look a route up (dialects/graph/README.md).
#ifndef LLMC_GRAPH_EXPERTS
#define LLMC_GRAPH_EXPERTS
include "dialects/graph/GraphBase.td"

class Graph_ExpertsOp<string mnemonic, list<string> overrides = []>
    : Graph_ComputeOp<mnemonic, !listconcat(["getEmitClass"], overrides)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_RouteOp : Graph_ExpertsOp<"route", ["getPrecisionRule"]> {
  let summary = "the experts with the largest scores of every innermost row, best first";
  let description = [{
    Chooses by score + bias; of equal ones the lower expert comes first, and a score that is not a number
    comes last. With `groups` above 1 the experts lie in so many equal groups, of which a row may choose
    from the best `kept_groups` alone: those with the largest sum of their `group_terms` largest
    scores (DeepSeek-AI, 2024, "DeepSeek-V2", section 2.1.2: 1 term, "DeepSeek-V3": 2), of equal ones the
    lower group. Has no gradient: weights come from the scores by take_along. A `mixture` is the router of
    one, whose experts ranks may share out; other choices of the largest (groups of experts, a sort) are
    none, nor is a mixture whose products were not recognised.
    Example:
    ```mlir
    %r = graph.route %x {kept_groups = 2, groups = 4, group_terms = 1, mixture}
        : (tensor<2x3x8xf32>) -> tensor<2x3x2xi64>
    ```
    Rules: C1 scores have a last dim, which `groups` divides; C2 the result has its other dims, then 1 to
    all choices that the kept groups hold; C3 the bias has one element an expert; C4 groups, kept_groups
    and group_terms are at least 1, and no more groups are kept than there are; C5 a group has
    `group_terms` experts.
  }];
  let arguments = (ins Graph_Float:$scores, Optional<Graph_Float>:$bias,
                       DefaultValuedAttr<I64Attr, "1">:$groups,
                       DefaultValuedAttr<I64Attr, "1">:$kept_groups,
                       DefaultValuedAttr<I64Attr, "1">:$group_terms,
                       UnitAttr:$mixture);
  let results = (outs Graph_Index:$routes);
}
def Graph_LimitRoutesOp : Graph_ExpertsOp<"limit_routes"> {
  let summary = "routes of every row of tokens, of which each expert takes `capacity` at most";
  let description = [{
    The others become -1. Within a row of tokens ([..., token, choice]) earlier tokens come first, and of
    one token the better choice. A route that is no expert stays as it is.
    Example:
    ```mlir
    %r = graph.limit_routes %ids {capacity = 2, experts = 4} : (tensor<2x3x2xi64>) -> tensor<2x3x2xi64>
    ```
    Rules: C1 routes have tokens and choices as their last two dims; C2 capacity and experts are at least
    1; C3 the result has the operand's type.
  }];
  let arguments = (ins Graph_Index:$routes, I64Attr:$capacity, I64Attr:$experts);
  let results = (outs Graph_Index:$result);
}
def Graph_GroupedMatmulOp : Graph_ExpertsOp<"grouped_matmul", ["getFlops", "getPrecisionRule"]> {
  let summary = "result[i..., c, f] = sum over d of operand[i..., c, d] weights[routes[i..., c] - offset, d, f]";
  let description = [{
    Multiplies each row by the matrix of its expert. The operand may lack the dim of choices: those of a
    token then share its row. Routes outside [offset, offset + experts) give zero rows. With `transposed`
    the weights are [experts, f, d]. `exchanged`: rows are at the ranks of their experts, so that a rank
    which has a part of the experts has all of their rows.
    Example:
    ```mlir
    %y = graph.grouped_matmul %x, %w, %r
        : (tensor<2x4xf32>, tensor<5x4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
    ```
    Rules: C1 weights have three dims; C2 the operand has the routes' shape, or that without its last dim,
    then d; C3 the result has the routes' shape, then f; C4 operand and weights have one element type.
  }];
  let arguments = (ins Graph_Float:$operand, Graph_Float:$weights, Graph_Index:$routes,
                       Optional<Graph_Offset>:$offset, UnitAttr:$transposed, UnitAttr:$exchanged);
  let results = (outs Graph_Float:$result);
  let extraClassDeclaration = [{
    bool isShared() { return getOperand().getType().getRank() == getRoutes().getType().getRank(); }
  }];
}
def Graph_GroupedOuterOp : Graph_ExpertsOp<"grouped_outer", ["getFlops"]> {
  let summary = "result[e, m, n] = sum over the rows that are routed to e of lhs[row, m] rhs[row, n]";
  let description = [{
    The gradient of grouped_matmul to its weights: result[routes[i..., c] - offset] += outer product of
    lhs[i..., c] and rhs[i..., c], in order of i and c. One operand may lack the dim of choices. Other
    routes add nothing. `exchanged` as in grouped_matmul.
    Example:
    ```mlir
    %g = graph.grouped_outer %x, %y, %r
        : (tensor<2x4xf32>, tensor<2x2x3xf32>, tensor<2x2xi64>) -> tensor<5x4x3xf32>
    ```
    Rules: C1 the result has three dims; C2 an operand has the routes' shape, or one of them that without
    its last dim, then m or n; C3 operands have one element type.
  }];
  let arguments = (ins Graph_Float:$lhs, Graph_Float:$rhs, Graph_Index:$routes,
                       Optional<Graph_Offset>:$offset, UnitAttr:$exchanged);
  let results = (outs Graph_Float:$result);
  let extraClassDeclaration = [{
    bool isShared(unsigned operand) {
      return ::mlir::cast<::mlir::RankedTensorType>(getOperation()->getOperand(operand).getType()).getRank() ==
             getRoutes().getType().getRank();
    }
  }];
}

//===-- Rows at their experts -----------------------------------------------===//
//
// Rows are sent to their experts and back: to the ranks that share these out, or into their order. In the global
// program this moves nothing: a token has `choices` slots, at least as many as it has routes, of which
// the first hold its rows and the others none. On ranks the rows lie in any of their slots
// (passes/4-partition/Localize/Experts.cpp): only what works row by row may stand in between.

def Graph_ExchangeRoutesOp : Graph_ExpertsOp<"exchange_routes"> {
  let summary = "routes of the rows that are sent to their experts, and whence they come";
  let description = [{
    `arrived` has the routes [..., token, choice] in slots [..., token, slot], -1 in the others;
    `sources` numbers the rank that each came from (0 here), -1 in the others; `lost` sums up to the number
    of rows for which the slots do not suffice: none here.
    Example:
    ```mlir
    %a, %s, %n = graph.exchange_routes %r {experts = 8}
        : (tensor<2x3x2xi64>) -> (tensor<2x3x4xi64>, tensor<2x3x4xi64>, tensor<2x3xf32>)
    ```
    Rules: C1 routes have tokens and choices as their last two dims; C2 `arrived` and `sources` have the
    same dims with at least as many slots as choices; C3 `lost` has the routes' shape without
    its last dim; C4 `experts` is at least 1.
  }];
  let arguments = (ins Graph_Index:$routes, I64Attr:$experts);
  let results = (outs Graph_Index:$arrived, Graph_Index:$sources, Graph_Float:$lost);
}
def Graph_DispatchOp : Graph_ExpertsOp<"dispatch"> {
  let summary = "sends the row of every choice to the rank of its expert";
  let description = [{
    The operand may lack the dim of choices: those of a token then send the same row. Slots without a
    row, where sources are less than 0, hold anything (zeros here).
    Example:
    ```mlir
    %y = graph.dispatch %x, %r, %s {experts = 8}
        : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x3x4xf32>
    ```
    Rules: C1 routes and sources have one shape but for their last dim, of which sources have at least as
    much; C2 the operand has the routes' shape, or that without its last dim, then d; C3 the result has
    the sources' shape, then d, and the operand's element type; C4 `experts` is at least 1.
  }];
  let arguments = (ins Graph_Float:$operand, Graph_Index:$routes, Graph_Index:$sources, I64Attr:$experts);
  let results = (outs Graph_Float:$result);
  let extraClassDeclaration = [{
    bool isShared() { return getOperand().getType().getRank() == getRoutes().getType().getRank(); }
  }];
}
def Graph_CollectOp : Graph_ExpertsOp<"collect"> {
  let summary = "sends rows back from the ranks of their experts: the adjoint of dispatch";
  let description = [{
    A choice that has no expert gets zeros.
    Example:
    ```mlir
    %y = graph.collect %x, %r, %s {experts = 8}
        : (tensor<3x3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x2x4xf32>
    ```
    Rules: C1 as for dispatch; C2 the operand has the sources' shape, then d; C3 the result has the
    routes' shape, then d, and the operand's element type; C4 `experts` is at least 1.
  }];
  let arguments = (ins Graph_Float:$operand, Graph_Index:$routes, Graph_Index:$sources, I64Attr:$experts);
  let results = (outs Graph_Float:$result);
}

// Defines what a rank does for an exchange: it sorts the rows that it sends by their experts.
def Graph_SortRoutesOp : Graph_ExpertsOp<"sort_routes"> {
  let summary = "order of rows by their experts";
  let description = [{
    `places` has the number of each route in the order of experts, then of tokens and choices, -1 where
    there is no expert (not in [0, experts)); `sorted` has the routes in that order, -1 behind the last;
    `counts[i]` counts those to experts [i, i + 1) * experts / parts.
    Example:
    ```mlir
    %p, %r, %n = graph.sort_routes %ids {experts = 8}
        : (tensor<2x3x2xi64>) -> (tensor<2x3x2xi64>, tensor<2x3x2xi64>, tensor<4xi64>)
    ```
    Rules: C1 places and sorted have the routes' type; C2 counts have one dim, which divides `experts`.
  }];
  let arguments = (ins Graph_Index:$routes, I64Attr:$experts);
  let results = (outs Graph_Index:$places, Graph_Index:$sorted, Graph_Index:$counts);
}
def Graph_ArrivedRoutesOp : Graph_ExpertsOp<"arrived_routes"> {
  let summary = "routes that have arrived from each rank, one rank behind the other";
  let description = [{
    `counts[i]` routes came from rank i, as many as there is room for. `arrived` are those of `sorted`,
    `sources` their ranks; both are -1 behind the last. The first element of
    `lost` counts those without room.
    Example:
    ```mlir
    %a, %s, %n = graph.arrived_routes %ids, %counts
        : (tensor<2x3x4xi64>, tensor<4xi64>) -> (tensor<2x3x4xi64>, tensor<2x3x4xi64>, tensor<2x3xf32>)
    ```
    Rules: C1 arrived and sources have the type of `sorted`; C2 counts have one dim; C3 `lost` has
    the shape of `sorted` without its last dim.
  }];
  let arguments = (ins Graph_Index:$sorted, Graph_Index:$counts);
  let results = (outs Graph_Index:$arrived, Graph_Index:$sources, Graph_Float:$lost);
}
def Graph_CountSourcesOp : Graph_ExpertsOp<"count_sources"> {
  let summary = "result[i] counts the elements that are i";
  let description = [{
    Example: `%n = graph.count_sources %ids : (tensor<2x3x4xi64>) -> tensor<4xi64>`
    Rules: C1 the result has one dim.
  }];
  let arguments = (ins Graph_Index:$sources);
  let results = (outs Graph_Index:$counts);
}
def Graph_PackRowsOp : Graph_ExpertsOp<"pack_rows"> {
  let summary = "result row places[i..., c] = operand row [i..., c]";
  let description = [{
    Rows are counted over all dims but the last. The operand may lack the dim of choices, as in
    dispatch. Choices whose place is no row of the result are left out; rows that no place has are zeros.
    Example:
    ```mlir
    %y = graph.pack_rows %x, %p : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
    ```
    Rules: C1 the operand has the places' shape, or that without its last dim, then d; C2 the result has
    the places' shape, then d, and the operand's element type.
  }];
  let arguments = (ins Graph_Float:$operand, Graph_Index:$places);
  let results = (outs Graph_Float:$result);
  let extraClassDeclaration = [{
    bool isShared() { return getOperand().getType().getRank() == getPlaces().getType().getRank(); }
  }];
}
def Graph_UnpackRowsOp : Graph_ExpertsOp<"unpack_rows"> {
  let summary = "result row [i..., c] = operand row places[i..., c]: the inverse of pack_rows";
  let description = [{
    A choice whose place is no row of the operand gets zeros.
    Example:
    ```mlir
    %y = graph.unpack_rows %x, %p : (tensor<3x2x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
    ```
    Rules: C1 the operand has the places' shape, then d; C2 the result has the operand's type.
  }];
  let arguments = (ins Graph_Float:$operand, Graph_Index:$places);
  let results = (outs Graph_Float:$result);
}

#endif

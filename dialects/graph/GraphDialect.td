#ifndef LLMC_GRAPH_DIALECT
#define LLMC_GRAPH_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::llmc::graph";
  let summary = "what a model computes: global tensors, no devices";
  let description = [{
    Shapes are static, tensors have value semantics, and no meaning depends on a mesh. Every op
    implements in its own file: sharding rule, cost, gradient, evaluate, emit class.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 0;
  // Verified by the table of GraphAttrs.cpp.
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

//===-- Enums ---------------------------------------------------------------===//

class Graph_Enum<string name, list<string> cases, string text>
    : I32EnumAttr<name, "", !foreach(i, !range(!size(cases)),
                  I32EnumAttrCase<cases[i], i>)> {
  let description = text;
  let cppNamespace = "::llmc::graph";
  let genSpecializedAttr = 0;
}

// An attribute is written `#graph.reduce_kind<max>`; a role is a bare word in its op's own syntax.
class Graph_EnumAttr<EnumInfo info, string mnemonic> : EnumAttr<Graph_Dialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def Graph_ReduceKind : Graph_Enum<"ReduceKind", ["sum", "max", "sum_squares"],
    "Selects what a reduction computes. Example: `#graph.reduce_kind<max>`">;
def Graph_ReduceKindAttr : Graph_EnumAttr<Graph_ReduceKind, "reduce_kind">;
def Graph_Predicate : Graph_Enum<"Predicate", ["eq", "ne", "lt", "le", "gt", "ge"],
    "Selects a comparison: lhs equal to, not equal to, less than, ... rhs. "
    "Example: `#graph.predicate<lt>`">;
def Graph_PredicateAttr : Graph_EnumAttr<Graph_Predicate, "predicate">;
def Graph_GeluForm : Graph_Enum<"GeluForm", ["tanh", "erf"],
    "Selects the exact form (erf) of graph.gelu or its approximation (tanh). "
    "Example: `#graph.gelu_form<erf>`">;
def Graph_GeluFormAttr : Graph_EnumAttr<Graph_GeluForm, "gelu_form">;
def Graph_Role : Graph_Enum<"Role",
    ["parameter", "master", "moment1", "moment2", "accumulator"],
    "Tells what a state is: a parameter; of a parameter, its copy of higher precision, AdamW's "
    "first or second moment, or the sum of its gradients over micro-batches.">;
def Graph_RoleAttr : EnumAttr<Graph_Dialect, Graph_Role, "role">;
def Graph_InitKind : Graph_Enum<"InitKind", ["zeros", "ones", "normal"],
    "Selects how a tensor is drawn: zeros, ones, or a normal distribution of mean 0. "
    "Example: `#graph.init_kind<normal>`">;
def Graph_InitKindAttr : Graph_EnumAttr<Graph_InitKind, "init_kind">;

def Graph_InputDefault : Graph_Enum<"InputDefault",
    ["required", "zeros", "ones", "positions", "row_ids", "dropout_keys"],
    "Selects what the loader makes of an input that nobody gives: nothing (it is required), zeros, "
    "ones, the position along the last dim, the number of the row, or the key from which the row's "
    "dropout is drawn, another in every step (lib/support/Dropout.h).">;

//===-- Attributes ----------------------------------------------------------===//

def Graph_ViewAttr : AttrDef<Graph_Dialect, "View"> {
  let mnemonic = "view";
  let summary = "where an internal tensor lies inside a source tensor";
  let description = [{
    Element (i0, i1, ...) of the tensor is element `offset + sum ik * strides[k]`
    of the source (both in elements, row-major). Slices, transposes and reshapes
    of a source compose to one view, and writing through it is the inverse.

    Example: `#graph.view<@"h.0.attn.c_attn.weight", 4, [12, 1]>` is the key part
    of a fused 4 x 12 weight.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$source, "int64_t":$offset,
                        ArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = "`<` $source `,` $offset `,` custom<Strides>($strides) `>`";
}

def Graph_LoaderAttr : AttrDef<Graph_Dialect, "Loader"> {
  let mnemonic = "loader";
  let summary = "how the loader makes an input before ranks read their shards";
  let description = [{
    `default_value` is used where nobody gives the input. Ranks read as block b of dim
    `permuted_dim` the given block `block_order[b]`; without `block_order` nothing is permuted.

    Example: `#graph.loader<default_value = positions, permuted_dim = 1, block_order = [1, 0]>`
    Rules: C1 a permuted dim lies behind the rows and has a block_order, which is a permutation.
  }];
  let parameters = (ins
      DefaultValuedParameter<"::llmc::graph::InputDefault",
                             "::llmc::graph::InputDefault::required">:$default_value,
      DefaultValuedParameter<"int64_t", "0">:$permuted_dim,
      OptionalParameter<"::mlir::DenseI64ArrayAttr">:$block_order);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isPermuted() const { return bool(getBlockOrder()); }
    // Returns why an input of this shape cannot be permuted so, for a person; empty if it can. If
    // the shape is that of a rank's shard (`isShard`), blocks need not divide the permuted dim.
    std::string describeMisfit(::llvm::ArrayRef<int64_t> shape, bool isShard) const;
  }];
}

#endif // LLMC_GRAPH_DIALECT

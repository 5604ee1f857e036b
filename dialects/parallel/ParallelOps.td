#ifndef LLMC_PARALLEL_OPS
#define LLMC_PARALLEL_OPS
include "dialects/graph/GraphBase.td"
include "dialects/parallel/ParallelInterfaces.td"

def Parallel_Dialect : Dialect {
  let name = "parallel";
  let cppNamespace = "::llmc::parallel";
  let summary = "how global tensors lie on a mesh, and the collectives that move them";
  let description = [{
    Annotates global tensors with shardings, then states the collectives between local types.
    A rank's device group holds the ranks that agree with it on every axis outside `axes`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  // Verified by the table of ParallelAttrs.cpp.
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

def Parallel_MeshAttr : AttrDef<Parallel_Dialect, "Mesh"> {
  let mnemonic = "mesh";
  let summary = "ordered atomic axes; a rank is the row-major index of its coordinate";
  let description = [{
    Axes come slowest first. Users name products of axes: the definition of each product follows the
    axes, unless the name is that of an axis; a name that the mesh lacks has size 1. Code asks for
    the axes of data parallelism, of stages, ... by their role.
    Example (the module's attribute `parallel.mesh`): `#parallel.mesh<["dp"=2, "pp"=3, "tp"=4]>`,
    `#parallel.mesh<["pp"=2, "dp0"=2, "dp1"=3, "tp"=2], ep = ["dp1", "tp"], dp = ["dp0", "dp1"], edp = ["dp0"]>`
    Rules: C1 axis names are distinct and not empty; C2 sizes >= 1; C3 a product has
    axes of the mesh, at least one, each once and slowest first; C4 a product does not
    go by the name of an axis; C5 stages lie along one axis.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes,
                        "::mlir::DictionaryAttr":$products);
  let builders = [
    AttrBuilder<(ins "::llvm::ArrayRef<::mlir::StringAttr>":$names,
                     "::llvm::ArrayRef<int64_t>":$sizes),
                [{ return $_get($_ctxt, names, sizes, ::mlir::DictionaryAttr::get($_ctxt)); }]>,
    // Builds a mesh of the axes that deriveAxes makes of named sizes.
    AttrBuilder<(ins "const ::llmc::planfile::AtomicAxes &":$axes)>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    using AxisRole = ::llmc::planfile::AxisRole;
    // Returns the size of the atomic axis `name`; 1 if the mesh has no such axis.
    int64_t getSize(::llvm::StringRef name) const;
    // Returns the position of the atomic axis `name`, or -1.
    int getIndex(::llvm::StringRef name) const;
    int64_t getNumRanks() const;

    // Returns the atomic axes of a product or of an axis by its name, or of a role; slowest first.
    ::llvm::SmallVector<::mlir::StringAttr> getAxes(::llvm::StringRef name) const;
    ::llvm::SmallVector<::mlir::StringAttr> getAxes(AxisRole role) const;
    // Returns the number of ranks along a role; 1 if the mesh does not have it.
    int64_t getSize(AxisRole role) const;
    bool isOf(::mlir::StringAttr axis, AxisRole role) const;
    // Returns the axis along which stages lie; null if the mesh has none.
    ::mlir::StringAttr getStageAxis() const;
    // Orders axes as a group counts its members and people read them: those of data, stages,
    // tensor, context, each slowest first; then the others as they came.
    ::llvm::SmallVector<::mlir::StringAttr> inGroupOrder(::llvm::ArrayRef<::mlir::StringAttr> axes) const;
  }];
}

def Parallel_ShardingAttr : AttrDef<Parallel_Dialect, "Sharding"> {
  let mnemonic = "sharding";
  let summary = "per dimension the axes that cut it, major first; and the axes it is unreduced over";
  let description = [{
    Every rank along an unreduced axis holds a partial sum (or maximum).
    Example: `#parallel.sharding<[{"dp"}, {}, {"tp", "pp"} ]>`,
    `#parallel.sharding<[{} ], unreduced = {"tp": max}>`
    Rules: C1 no axis twice over all dimensions and the unreduced set. Annotations.h has the rules
    of a sharding for the value that it describes.
  }];
  let parameters = (ins
      ArrayRefParameter<"::mlir::ArrayAttr", "per dim, StringAttrs">:$dims,
      OptionalArrayRefParameter<"::mlir::StringAttr">:$unreduced,
      "::llmc::graph::ReduceKind":$kind);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isReplicated() const;
    // Returns the sharding of a replicated tensor of this rank.
    static ShardingAttr getReplicated(::mlir::MLIRContext *context, int64_t rank);
    // Returns the axis names of dim `d`.
    ::llvm::SmallVector<::llvm::StringRef> getDimAxes(int64_t d) const;
    bool isUnreducedOver(::llvm::StringRef axis) const;
    // Returns the sharding without unreduced axes.
    ShardingAttr getReduced() const;
    // Returns the shape of the shard that a rank holds (sizes divide).
    ::llvm::SmallVector<int64_t> getLocalShape(::llvm::ArrayRef<int64_t> global, MeshAttr mesh) const;
  }];
}

def Parallel_FlatPartAttr : AttrDef<Parallel_Dialect, "FlatPart"> {
  let mnemonic = "flat_part";
  let summary = "where a state lies in a flat tensor";
  let description = [{
    The elements from `begin` on are those of the rank's part of `state` (of one layer of it, if it
    is stacked), which has the `shape`.
    Example: `#parallel.flat_part<@w.m, 0, [4, 8]>`
    Rules: C1 `begin` is not negative and sizes are positive.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$state, "int64_t":$begin,
                        "::mlir::DenseI64ArrayAttr":$shape);
  let assemblyFormat = "`<` $state `,` $begin `,` $shape `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getNumElements() const { return ::llvm::product_of(getShape().asArrayRef()); }
  }];
}

def Parallel_FlatAttr : AttrDef<Parallel_Dialect, "Flat"> {
  let mnemonic = "flat";
  let summary = "states side by side in one tensor, cut without regard to their boundaries";
  let description = [{
    Binds an argument or result of a stage's function, of type tensor<n> (or tensor<layers x n>,
    with `parallel.layers`), to parts of several states: the flat parameters of ZeRO (Rajbhandari
    et al., 2020) and FSDP (Zhao et al., 2023). Parts lie one after the other from element 0 on,
    and what follows them is padding, which holds zeros. The rank with row-major coordinate c over
    `axes` holds elements [c * n, (c + 1) * n) of them; without axes each rank holds all.
    Example: `#parallel.flat<["dp"], [<@w.m, 0, [4, 8]>, <@b.m, 32, [8]>]>`
    Rules: C1 parts, at least one, lie one after the other from element 0 on; C2 axes are distinct.
  }];
  let parameters = (ins "::mlir::ArrayAttr":$axes,
                        ArrayRefParameter<"::llmc::parallel::FlatPartAttr">:$parts);
  let assemblyFormat = "`<` $axes `,` `[` $parts `]` `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::StringAttr> getAxisNames() const;
    // Returns the symbol of the first part's state, which no other flat tensor of the stage has.
    ::llvm::StringRef getFirstState() const { return getParts().front().getState().getValue(); }
  }];
}

class Parallel_Op<string mnemonic, list<Trait> traits = []>
    : Op<Parallel_Dialect, mnemonic, traits>;

def Parallel_ReshardOp : Parallel_Op<"reshard", [Pure, SameOperandsAndResultType]> {
  let summary = "the same global tensor under another sharding";
  let description = [{
    Exists between InsertReshards and Localize, on global types.
    `from` is the sharding of the operand, `to` that of the result; the elements stay the same.
    Example:
    ```mlir
    %r = parallel.reshard %x from <[{}, {} ], unreduced = {"tp": sum}> to <[{"tp"}, {} ]>
        : tensor<8x8xf32>
    ```
    Rules: C1 ranks agree; C2 `to` is unreduced only where `from` is.
  }];
  let arguments = (ins Graph_Tensor:$operand, Parallel_ShardingAttr:$from, Parallel_ShardingAttr:$to);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$operand `from` $from `to` $to attr-dict `:` type($operand)";
  let hasVerifier = 1;
}

// Defines a collective on local types (after Localize). The group of a rank consists of all ranks
// that agree with it on every axis outside `axes`, in row-major order over `axes`.
class Parallel_CollectiveOp<string mnemonic, list<Trait> traits = [],
                            list<string> answers = []>
    : Parallel_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<CollectiveOpInterface, answers>],
                                        traits)> {
  let results = (outs Graph_Tensor:$result);
  let hasVerifier = 1;
}
def Parallel_AllReduceOp : Parallel_CollectiveOp<"all_reduce", [SameOperandsAndResultType]> {
  let summary = "every member gets the sum (or maximum) over the group, added in group order";
  let description = [{
    `members` keeps only these coordinates of the single axis (the stages that
    hold a tied tensor).
    Example:
    ```mlir
    %r = parallel.all_reduce %x over ["pp"] members [0, 2] {kind = #graph.reduce_kind<max>}
        : tensor<8x8xf32>
    ```
    Rules: C1 types agree; C2 members need a single axis and
    lie within it; C3 (of all collectives) axes are distinct axes of the mesh, at least one.
  }];
  let arguments = (ins Graph_Tensor:$operand, StrArrayAttr:$axes, Graph_ReduceKindAttr:$kind,
                       OptionalAttr<DenseI64ArrayAttr>:$members);
  let assemblyFormat = "$operand `over` $axes (`members` $members^)? attr-dict `:` type($operand)";
}
def Parallel_AllGatherOp : Parallel_CollectiveOp<"all_gather"> {
  let summary = "concatenates the members' parts along `dim`";
  let description = [{
    Example: `%r = parallel.all_gather %x over ["tp"] dim 1 : (tensor<8x8xf32>) -> tensor<8x32xf32>`
    Rules: C1 ranks and element types agree, `dim` is in range; C2 the group multiplies `dim`.
  }];
  let arguments = (ins Graph_Tensor:$operand, StrArrayAttr:$axes, I64Attr:$dim);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` functional-type($operand, $result)";
}
def Parallel_ReduceScatterOp : Parallel_CollectiveOp<"reduce_scatter"> {
  let summary = "the sum over the group, of which each member keeps its part along `dim`";
  let description = [{
    Example:
    ```mlir
    %r = parallel.reduce_scatter %x over ["dp", "tp"] dim 0 {kind = #graph.reduce_kind<sum>}
        : (tensor<8x8xf32>) -> tensor<1x8xf32>
    ```
    Rules: C1 ranks and element types agree, `dim` is in range; C2 the group divides `dim`.
  }];
  let arguments = (ins Graph_Tensor:$operand, StrArrayAttr:$axes, I64Attr:$dim, Graph_ReduceKindAttr:$kind);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` functional-type($operand, $result)";
}
def Parallel_AllToAllOp : Parallel_CollectiveOp<"all_to_all"> {
  let summary = "cuts along `split`, exchanges the parts, and puts what came together along `concat`";
  let description = [{
    Part j of member i along `split` becomes part i of member j along `concat`: what was cut
    along `concat` over the group is cut along `split`. Both may be one dimension.
    Example:
    ```mlir
    %r = parallel.all_to_all %x over ["tp"] split 1 concat 0
        : (tensor<8x8xf32>) -> tensor<32x2xf32>
    ```
    Rules: C1 ranks and element types agree, `split` and `concat` are in range; C2 the group
    divides `split` and multiplies `concat`.
  }];
  let arguments = (ins Graph_Tensor:$operand, StrArrayAttr:$axes, I64Attr:$split, I64Attr:$concat);
  let assemblyFormat = "$operand `over` $axes `split` $split `concat` $concat attr-dict `:` functional-type($operand, $result)";
}
def Parallel_ShiftOp : Parallel_CollectiveOp<"shift", [SameOperandsAndResultType]> {
  let summary = "each member gets the operand of the member `distance` before it, around a ring";
  let description = [{
    Neighbouring shifts of one distance over one axis travel as one message, unless one sends what
    another receives.
    Example: `%r = parallel.shift %x over ["cp"] by 1 : tensor<8x8xf32>`
    Rules: C1 a ring has a single axis; C2 0 < distance < the size of the axis.
  }];
  let arguments = (ins Graph_Tensor:$operand, StrArrayAttr:$axes, I64Attr:$distance);
  let assemblyFormat = "$operand `over` $axes `by` $distance attr-dict `:` type($operand)";
}
def Parallel_ExchangeRowsOp : Parallel_CollectiveOp<"exchange_rows"> {
  let summary = "sends rows[0, sent[0]) to member 0, the next sent[1] to member 1, ...";
  let description = [{
    An all-to-all of as many rows as there are. Rows are counted over all dims but the last. The result has
    the received[0] rows of member 0, behind them the received[1] of member 1, ..., as many as there is
    room for; what is behind them holds anything. Of `sent` of member i for j and `received` of j for i
    the less is moved: a member that has no room for all says so by the latter.
    Example:
    ```mlir
    %r = parallel.exchange_rows %x counts %s, %t over ["tp"]
        : (tensor<8x8xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<16x8xf32>
    ```
    Rules: C1 element types and last dims agree; C2 counts have one element a member of the group.
  }];
  let arguments = (ins Graph_Tensor:$operand, Graph_Index:$sent, Graph_Index:$received, StrArrayAttr:$axes);
  let assemblyFormat = "$operand `counts` $sent `,` $received `over` $axes attr-dict `:` functional-type(operands, $result)";
}
def Parallel_AllSliceOp : Parallel_CollectiveOp<"all_slice", [], ["communicates"]> {
  let summary = "each member keeps its part along `dim`; no communication";
  let description = [{
    Example: `%r = parallel.all_slice %x over ["tp"] dim 0 : (tensor<8x8xf32>) -> tensor<2x8xf32>`
    Rules: C1 ranks and element types agree, `dim` is in range; C2 the group divides `dim`.
  }];
  let arguments = (ins Graph_Tensor:$operand, StrArrayAttr:$axes, I64Attr:$dim);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` functional-type($operand, $result)";
}
def Parallel_AxisOffsetOp : Parallel_Op<"axis_offset", [Pure]> {
  let summary = "stride * (row-major coordinate of this rank over `axes`), a scalar";
  let description = [{
    Computes the `offset` operand, in elements, of an op whose indexed dimension is cut over `axes`;
    `stride` is the size of one part.
    Example: `%o = parallel.axis_offset ["tp"] stride 129 : tensor<i64>`
    Rules: C3 as for the collectives.
  }];
  let arguments = (ins StrArrayAttr:$axes, I64Attr:$stride);
  let results = (outs Graph_Offset:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$axes `stride` $stride attr-dict `:` type($result)";
}

#endif

// Defines states, sources and folded layers.
#ifndef LLMC_GRAPH_STRUCTURE
#define LLMC_GRAPH_STRUCTURE
include "dialects/graph/GraphBase.td"

def Graph_SourceOp : Graph_Op<"source", [Symbol]> {
  let summary = "a tensor of the model's source, under the source's own name";
  let description = [{
    Declares bytes on disk (`file` indexes the module's `graph.files`) or, where
    there are none, the rule from which the tensor is drawn. `init` is the
    architecture's own rule and is there in both cases.

    Example:
    ```mlir
    graph.source @"transformer.wte.weight" : tensor<257x32xf32>
        {aliases = ["lm_head.weight"], file = 0, file_offset = 1024, init = #graph.init_kind<normal>, init_std = 2.0e-2}
    ```
    Rules: C1 static shape; C2 `file` needs `file_offset`; C3 `init_std` > 0 for normal.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Graph_Tensor>:$type,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$aliases,
                       OptionalAttr<I64Attr>:$file, OptionalAttr<I64Attr>:$file_offset,
                       Graph_InitKindAttr:$init, OptionalAttr<F64Attr>:$init_std);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
}

def Graph_StateOp : Graph_Op<"state",
    [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a persistent tensor of the training step";
  let description = [{
    A parameter has one view into a source, or one per layer if it is stacked
    (then its leading dimension is the layer dimension, never cut). Where the source has a
    tensor for each index of the next dimension too (for each expert), there is a view for
    each, layer by layer. Other roles name the parameter that they belong to.

    Example:
    ```mlir
    graph.state @attn_k : tensor<2x32x32xf32> parameter
        views [#graph.view<@"h.0.c_attn.weight", 32, [96, 1]>, #graph.view<@"h.1.c_attn.weight", 32, [96, 1]>]
    graph.state @attn_k.m : tensor<2x32x32xf32> moment1 of @attn_k
    ```
    Rules: C1 static shape; C2 a parameter has one view, or exactly one per
    leading index when `stacked`, or one per index of one more leading dimension, which
    their strides then leave out; C3 a view has one stride per remaining
    dimension and stays inside its source; C4 other roles have `of` (a parameter; not
    needed for an accumulator, which may sum something else) and no views; C5 `valid_shape` (the rest is padding) has the rank and stays inside the shape.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Graph_Tensor>:$type,
                       Graph_RoleAttr:$role,
                       OptionalAttr<FlatSymbolRefAttr>:$of,
                       OptionalAttr<TypedArrayAttrBase<Graph_ViewAttr, "views">>:$views,
                       UnitAttr:$stacked,
                       OptionalAttr<I64ArrayAttr>:$valid_shape);
  let assemblyFormat = [{
    $sym_name `:` $type $role (`stacked` $stacked^)? (`of` $of^)? (`views` $views^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    // Counts the leading dimensions of a parameter of which every index has its own view: layers,
    // and experts where the source has one tensor each.
    int64_t getViewedDims();
  }];
}

def Graph_RepeatOp : Graph_Op<"repeat", [IsolatedFromAbove, AttrSizedOperandSegments,
    AttrSizedResultSegments, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "N equal layers, folded";
  let description = [{
    Runs the body `count` times, for i = 0 ... count-1 (for `reverse`: count-1 ... 0).
    Body arguments: the carried values, then slice i of every stacked operand
    (its leading dimension removed), then the captured operands unchanged. The
    body yields the next carried values, then one value for slice i of every
    stacked result. The layer dimension is never cut.

    Example:
    ```mlir
    %h, %res = graph.repeat 12 carried(%h0 : tensor<4x16x32xf32>) stacked(%w : tensor<12x32x32xf32>) captured()
        -> tensor<4x16x32xf32> stacking tensor<12x4x16x32xf32> {
    ^bb0(%x: tensor<4x16x32xf32>, %wi: tensor<32x32xf32>):
      %y = graph.matmul "bsd,de->bse" %x, %wi : ...
      graph.yield %y, %x : ...
    }
    ```
    Rules: C1 count >= 1; C2 stacked operands and results have leading dimension
    `count`; C3 argument types match carried, sliced stacked and captured
    operands; C4 the yield matches carried types and sliced stacked results;
    C5 carried results have the carried types.
  }];
  let arguments = (ins I64Attr:$count, UnitAttr:$reverse,
                       Variadic<Graph_Tensor>:$carried,
                       Variadic<Graph_Tensor>:$stacked,
                       Variadic<Graph_Tensor>:$captured);
  let results = (outs Variadic<Graph_Tensor>:$carriedResults,
                      Variadic<Graph_Tensor>:$stackedResults);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count (`reverse` $reverse^)? `carried` `(` ($carried^ `:` type($carried))? `)`
    `stacked` `(` ($stacked^ `:` type($stacked))? `)`
    `captured` `(` ($captured^ `:` type($captured))? `)`
    (`->` type($carriedResults)^)? (`stacking` type($stackedResults)^)?
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    ::llvm::ArrayRef<::mlir::BlockArgument> getCarriedArgs() {
      return getBlock().getArguments().take_front(getCarried().size());
    }
    ::llvm::ArrayRef<::mlir::BlockArgument> getStackedArgs() {
      return getBlock().getArguments().slice(getCarried().size(), getStacked().size());
    }
    ::llvm::ArrayRef<::mlir::BlockArgument> getCapturedArgs() {
      return getBlock().getArguments().take_back(getCaptured().size());
    }
  }];
}

def Graph_YieldOp : Graph_Op<"yield", [Terminator, Pure]> {
  let summary = "ends the body of a repeat";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), "build($_builder, $_state, ::mlir::ValueRange());">];
}

#endif

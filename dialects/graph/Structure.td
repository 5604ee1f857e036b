// Defines states, sources and folded layers.
#ifndef LLMC_GRAPH_STRUCTURE
#define LLMC_GRAPH_STRUCTURE
include "dialects/graph/GraphBase.td"

def Graph_SourceOp : Graph_Op<"source", [Symbol]> {
  let summary = "a tensor of the model's source, under the source's own name";
  let description = [{
    Declares bytes on disk (`file` indexes the module's `graph.files`, `file_offset` is in bytes)
    or, where there are none, the rule from which the tensor is drawn. `init` is the
    architecture's own rule and is there in both cases; `init_std` is the standard deviation of
    `normal`. `aliases` are further names of the tensor in the source.

    Example:
    ```mlir
    graph.source @"h.0.attn.c_attn.weight" : tensor<4x12xf32>
        {aliases = ["other.name"], file = 0, file_offset = 1024, init = #graph.init_kind<normal>,
        init_std = 2.0e-2}
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
    graph.state @attn_k : tensor<2x4x4xf32> parameter stacked
        views [#graph.view<@"h.0.attn.c_attn.weight", 4, [12, 1]>,
            #graph.view<@"h.1.attn.c_attn.weight", 4, [12, 1]>]
    graph.state @attn_k.m : tensor<2x4x4xf32> moment1 of @attn_k
    ```
    Rules: C1 static shape; C2 a parameter has one view, or exactly one per
    leading index when `stacked`, or one per index of one more leading dimension, which
    their strides then leave out; C3 a view has one stride per remaining
    dimension and stays inside its source; C4 other roles have `of` (a parameter; not
    needed for an accumulator, which may sum something else) and no views; C5 `valid_shape` (the
    rest is padding) has the rank and stays inside the shape.
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
    %h, %r = graph.repeat 3 carried(%h0 : tensor<2x4xf32>) stacked(%w : tensor<3x4x4xf32>)
        captured(%b : tensor<4xf32>)
        -> tensor<2x4xf32> stacking tensor<3x2x4xf32> {
    ^bb0(%x: tensor<2x4xf32>, %wi: tensor<4x4xf32>, %bi: tensor<4xf32>):
      %y = graph.matmul "sd,de->se" %x, %wi : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %z = graph.add %y, %bi : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
      graph.yield %z, %x : tensor<2x4xf32>, tensor<2x4xf32>
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
  let description = [{
    Yields the carried values, then slice i of each stacked result.
    Example: `graph.yield %z, %x : tensor<2x4xf32>, tensor<2x4xf32>`
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), "build($_builder, $_state, ::mlir::ValueRange());">];
}

#endif

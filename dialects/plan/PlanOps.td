#ifndef LLMC_PLAN_OPS
#define LLMC_PLAN_OPS
include "dialects/graph/GraphBase.td"
include "dialects/plan/PlanEnums.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::llmc::plan";
  let summary = "what one rank of each class does: buffers of a static arena, instructions, tables";
  let description = [{
    One plan.stage per rank class. Its buffers are declared once; procedures hold
    instructions on streams ordered by events; the table says which procedure
    runs for which micro-batch in which slot. It mirrors lib/planfile/plan.fbs.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}

def Plan_SpaceAttr : EnumAttr<Plan_Dialect, Plan_Space, "space">;
def Plan_ProcedureKindAttr : EnumAttr<Plan_Dialect, Plan_ProcedureKind, "procedure_kind">;
def Plan_CollectiveKindAttr : EnumAttr<Plan_Dialect, Plan_CollectiveKind, "collective_kind">;

def Plan_BufferType : TypeDef<Plan_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "bytes of the rank's arena, with a tensor type";
  let description = [{ Example: `!plan.buffer<4x32xf32>` }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{ int64_t getByteSize() const; }];
}
def Plan_LaneAttr : AttrDef<Plan_Dialect, "Lane"> {
  let mnemonic = "lane";
  let summary = "a micro-batch, and the slot that it has in a pool";
  let description = [{
    Stands without its name in the `also` list of an entry; `pool` is 0 if missing.
    Example: `#plan.entry<@forward, 1, 1 also <0, 0>>`
  }];
  let parameters = (ins "int64_t":$microBatch, "int64_t":$slot, DefaultValuedParameter<"int64_t", "0">:$pool);
  let assemblyFormat = "`<` $microBatch `,` $slot (`,` `pool` $pool^)? `>`";
}
def Plan_EntryAttr : AttrDef<Plan_Dialect, "Entry"> {
  let mnemonic = "entry";
  let summary = "one row of a schedule table";
  let description = [{
    Identifies what runs, for which micro-batch, in which slot of which pool: lane 0. `also` holds
    the lanes 1 and up, of procedures that touch several pools or micro-batches.
    Example: `#plan.entry<@begin, 0, 0>`, `#plan.entry<@forward, 1, 1 also <0, 0>>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$procedure, "int64_t":$microBatch, "int64_t":$slot,
                        DefaultValuedParameter<"int64_t", "0">:$pool,
                        OptionalArrayRefParameter<"::llmc::plan::LaneAttr">:$also);
  let builders = [AttrBuilder<(ins "::mlir::FlatSymbolRefAttr":$procedure, "int64_t":$microBatch,
                                   "int64_t":$slot), [{
    return $_get($_ctxt, procedure, microBatch, slot, 0, ::llvm::ArrayRef<::llmc::plan::LaneAttr>());
  }]>];
  let assemblyFormat = "`<` $procedure `,` $microBatch `,` $slot (`,` `pool` $pool^)? (`also` $also^)? `>`";
  let extraClassDeclaration = [{
    // Returns the lane of that number; null if the entry has no such lane.
    ::llmc::plan::LaneAttr getLane(int64_t lane) const;
  }];
}
def Plan_ChunkAttr : AttrDef<Plan_Dialect, "Chunk"> {
  let mnemonic = "chunk";
  let summary = "consecutive layers that a stage runs; last < first: none";
  let description = [{ Example: `#plan.chunk<0, 1>` }];
  let parameters = (ins "int64_t":$firstLayer, "int64_t":$lastLayer);
  let assemblyFormat = "`<` $firstLayer `,` $lastLayer `>`";
}
def Plan_PoolAttr : AttrDef<Plan_Dialect, "Pool"> {
  let mnemonic = "pool";
  let summary = "slots of equal buffers that a chunk keeps over the lifetime of a micro-batch";
  let description = [{
    `chunk` indexes the stage's `chunks`; `slots` counts the micro-batches that it holds at once.
    Example: `#plan.pool<0, 2>`
  }];
  let parameters = (ins "int64_t":$chunk, "int64_t":$slots);
  let assemblyFormat = "`<` $chunk `,` $slots `>`";
}
def Plan_OriginAttr : AttrDef<Plan_Dialect, "Origin"> {
  let mnemonic = "origin";
  let summary = "what an instruction is there for";
  let description = [{
    Names the op, the nodes of the model that it comes from, and, of collectives and messages, the
    tactic and its rule that asked for it. `detail` of these is for people: {seed, moved (strings),
    tensors (a list of {names, type (of the whole mesh), layout, needed (#parallel.sharding)})}; all
    may be missing.
    Example: `#plan.origin<"stage_boundary" tactic "stages" rule "activations">`
  }];
  let parameters = (ins StringRefParameter<>:$op, ArrayRefParameter<"::mlir::StringAttr">:$nodes,
                        StringRefParameter<>:$tactic, StringRefParameter<>:$rule,
                        "::mlir::DictionaryAttr":$detail);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$op,
                                   "::llvm::ArrayRef<::mlir::StringAttr>":$nodes,
                                   "::llvm::StringRef":$tactic, "::llvm::StringRef":$rule), [{
    return $_get($_ctxt, op, nodes, tactic, rule, ::mlir::DictionaryAttr());
  }]>];
  let hasCustomAssemblyFormat = 1;
}

//===-- Bindings --------------------------------------------------------------===//

def Plan_StateBindingAttr : AttrDef<Plan_Dialect, "StateBinding"> {
  let mnemonic = "state";
  let summary = "the shard of a state that a buffer holds";
  let description = [{
    `layers` is [first, count] of a stacked state; `dims` (the axes that cut each dim) and
    `valid_shape` (sizes without padding) are those of one layer. `owner` is false of a copy that
    another stage owns.
    Example: `#plan.state<@w, parameter, layers = [0, 2], dims = [["tp"], []], valid_shape = [29, 8]>`
    Rules: C1 dims are lists of axes, as many as valid_shape has sizes; C2 layers are a first one
    and a positive count.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$state, EnumParameter<Graph_Role>:$role,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$layers,
                        "::mlir::ArrayAttr":$dims, "::mlir::DenseI64ArrayAttr":$valid_shape,
                        DefaultValuedParameter<"bool", "true">:$owner);
  let assemblyFormat = "`<` $state `,` $role `,` struct($layers, $dims, $valid_shape, $owner) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isStacked() const { return bool(getLayers()); }
    int64_t getFirstLayer() const { return isStacked() ? getLayers()[0] : 0; }
    int64_t getNumLayers() const { return isStacked() ? getLayers()[1] : 1; }
  }];
}
def Plan_FlatPartAttr : AttrDef<Plan_Dialect, "FlatPart"> {
  let mnemonic = "flat_part";
  let summary = "a tensor of which a flat buffer may hold elements";
  let description = [{
    `begin` is its first element in the flat range; `shape` is that of the tensor's local part
    after `dims`, led by 1 if it is a layer of a stacked state.
    Example: `#plan.flat_part<state = <@x, parameter, dims = [[], ["tp"]], valid_shape = [4, 6]>,
    begin = 0, shape = [4, 3]>`
    Rules: C1 sizes are 1 and more, with axes for each; C2 it is one layer if it is of a stack.
  }];
  let parameters = (ins "::llmc::plan::StateBindingAttr":$state, "int64_t":$begin,
                        "::mlir::DenseI64ArrayAttr":$shape);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}
def Plan_FlatBindingAttr : AttrDef<Plan_Dialect, "FlatBinding"> {
  let mnemonic = "flat";
  let summary = "a rank's range of adjacent tensors, cut without regard to their boundaries";
  let description = [{
    The rank with coordinate c over `axes` holds elements [c * n, (c + 1) * n), n those of the
    buffer; without axes every rank holds all.
    Example: `#plan.flat<["dp"] parts [<state = <@x, parameter, dims = [[]], valid_shape = [8]>,
    begin = 0, shape = [8]>]>`
    Rules: C1 parts, at least one, have one role and lie one after the other.
  }];
  let parameters = (ins OptionalArrayRefParameter<"::mlir::StringAttr">:$axes,
                        ArrayRefParameter<"::llmc::plan::FlatPartAttr">:$parts);
  let assemblyFormat = "`<` (`[` $axes^ `]`)? `parts` `[` $parts `]` `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::llmc::graph::Role getRole() const { return getParts().front().getState().getRole(); }
  }];
}
def Plan_InputBindingAttr : AttrDef<Plan_Dialect, "InputBinding"> {
  let mnemonic = "input";
  let summary = "an input of the program that the loader writes into a buffer";
  let description = [{
    `dims` are the axes that cut each dim, rows first; without them the data axes cut the rows.
    Example: `#plan.input<"labels">`,
    `#plan.input<"x", dims = [["dp"], ["cp"]], loader = <permuted_dim = 1, block_order = [1, 0]>>`
    Rules: C1 dims are lists of axes.
  }];
  let parameters = (ins "::mlir::StringAttr":$input, OptionalParameter<"::mlir::ArrayAttr">:$dims,
                        OptionalParameter<"::llmc::graph::LoaderAttr">:$loader);
  let assemblyFormat = "`<` $input (`,` struct($dims, $loader)^)? `>`";
  let genVerifyDecl = 1;
}
def Plan_ScalarBindingAttr : AttrDef<Plan_Dialect, "ScalarBinding"> {
  let mnemonic = "scalar";
  let summary = "a number that the host writes before each step";
  let description = [{ Example: `#plan.scalar<"lr">` }];
  let parameters = (ins "::mlir::StringAttr":$scalar);
  let assemblyFormat = "`<` $scalar `>`";
}
def Plan_OutputBindingAttr : AttrDef<Plan_Dialect, "OutputBinding"> {
  let mnemonic = "output";
  let summary = "an output of the step; of an inference, the shard of it that a buffer holds";
  let description = [{
    Example: `#plan.output<"loss">`,
    `#plan.output<"logits", dims = [["dp"], [], ["tp"]], valid_shape = [4, 16, 257]>`
    Rules: C1 dims are lists of axes, as many as valid_shape has sizes; one comes with the other.
  }];
  let parameters = (ins "::mlir::StringAttr":$output, OptionalParameter<"::mlir::ArrayAttr">:$dims,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$valid_shape);
  let assemblyFormat = "`<` $output (`,` struct($dims, $valid_shape)^)? `>`";
  let genVerifyDecl = 1;
}

def Plan_RoutesAttr : AttrDef<Plan_Dialect, "Routes"> {
  let mnemonic = "routes";
  let summary = "whose routes a launch writes: the router, and the rank's shard of them";
  let description = [{
    `router` is a node of the source. `shape` is that of one micro-batch on all ranks, which `dims` cut.
    Example: `#plan.routes<"model.layers.0.mlp.gate", dims = [["dp"], ["cp"], []], shape = [4, 16, 2]>`
    Rules: C1 dims are lists of axes, as many as shape has sizes.
  }];
  let parameters = (ins "::mlir::StringAttr":$router, "::mlir::ArrayAttr":$dims,
                        "::mlir::DenseI64ArrayAttr":$shape);
  let assemblyFormat = "`<` $router `,` struct($dims, $shape) `>`";
  let genVerifyDecl = 1;
}

// Constrains what the caller of the step reads or writes in a buffer.
def Plan_Binding : AnyAttrOf<[Plan_StateBindingAttr, Plan_FlatBindingAttr, Plan_InputBindingAttr,
                              Plan_ScalarBindingAttr, Plan_OutputBindingAttr],
                             "#plan.state, #plan.flat, #plan.input, #plan.scalar or #plan.output">;

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;
def Plan_Buffer : AnyTypeOf<[Plan_BufferType]>;

def Plan_StageOp : Plan_Op<"stage", [Symbol, SymbolTable, NoTerminator, SingleBlock, IsolatedFromAbove]> {
  let summary = "one rank class";
  let description = [{
    Holds first its buffers, then its procedures. `table` is the schedule. `chunks` are
    the runs of layers that the stage holds, in the order of the model; pool i is
    the main pool of chunk i (from forward to the end of backward), further
    pools follow. `stage` is the coordinate along the axis of stages; `arena_bytes` is the size of
    the arena.
    Example:
    ```mlir
    plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, 1>],
        pools = [#plan.pool<0, 2>], arena_bytes = 9088,
        table = [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 1, 1 also <0, 0>>]} {
    ```
    Rules: C1 table entries name procedures of the stage; C2 pools have slots, belong to
    chunks, and every lane of an entry names a slot of its pool;
    C3 once arena_bytes is set every buffer has an offset inside it; C4 it holds
    buffers, then procedures, and nothing else; C5 there is a chunk at least, and a
    main pool for each; buffers and procedures name pools and chunks that exist.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$stage,
                       TypedArrayAttrBase<Plan_ChunkAttr, "chunks">:$chunks,
                       TypedArrayAttrBase<Plan_PoolAttr, "pools">:$pools,
                       TypedArrayAttrBase<Plan_EntryAttr, "entries">:$table,
                       OptionalAttr<I64Attr>:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let extraClassDeclaration = [{
    int64_t getSlotsOf(int64_t pool) {
      return ::mlir::cast<::llmc::plan::PoolAttr>(getPools()[pool]).getSlots();
    }
  }];
  let hasVerifier = 1;
}

// A buffer allocates: two buffers of one type are two regions, which CSE must not merge. A view
// only names bytes of its parent, so it has no effect of its own.
def Plan_BufferOp : Plan_Op<"buffer", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a region of the arena";
  let description = [{
    `space` tells how long it lives. `offset` and (for slot buffers) `slot_stride`, in bytes, are
    set by AssignArena. A buffer with `parent` is a view of another at a `displacement` in bytes (a
    layer of a stacked state, a reshape). A slot buffer belongs to a pool (0 if missing).
    `binding` names what the caller of the step reads or writes in it: #plan.state, #plan.flat,
    #plan.input, #plan.scalar or #plan.output.
    Example: `%x = plan.buffer slot {offset = 256, slot_stride = 4096} : !plan.buffer<4x32xf32>`,
    `%w1 = plan.buffer persistent of %w : !plan.buffer<2x32xf32> at 128 : !plan.buffer<32xf32>`
    Rules: C1 a view stays inside its parent; C2 bindings only on persistent, step or slot buffers;
    C3 a view has its parent's space and no offset of its own; C4 an input has axes for no more
    dims than the buffer, and a permuted dim among them; C5 only slot buffers have a slot_stride,
    and a pool; C6 a flat buffer has one dim.
  }];
  let arguments = (ins Optional<Plan_Buffer>:$parent, Plan_SpaceAttr:$space,
                       OptionalAttr<I64Attr>:$displacement,
                       OptionalAttr<I64Attr>:$offset, OptionalAttr<I64Attr>:$slot_stride,
                       OptionalAttr<Plan_Binding>:$binding, OptionalAttr<I64Attr>:$pool);
  let results = (outs Plan_Buffer:$result);
  let assemblyFormat = "$space (`of` $parent^ `:` type($parent))? (`at` $displacement^)? attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    // Returns the binding if it is of this kind; null otherwise.
    template <typename BindingT> BindingT getBindingAs() {
      return ::mlir::dyn_cast_or_null<BindingT>(getBindingAttr());
    }
  }];
  let hasVerifier = 1;
}

def Plan_ProcedureOp : Plan_Op<"procedure", [Symbol, NoTerminator, SingleBlock]> {
  let summary = "instructions of one table entry";
  let description = [{
    `chunk` is 0 if missing. Lane k of an entry is that of the buffers of pool
    `lanes[k]`; without `lanes` all are of the chunk's main pool, lane 0. Messages
    and events have a lane of their own, since an exchange may touch two slots of one pool.
    Example:
    ```mlir
    plan.procedure @begin begin {
      plan.fill %w {stream = 0} : !plan.buffer<2x32xf32>
    }
    ```
    Rules: C1 it holds instructions only; C2 streams are in [0, 255]; C3 an exchange
    holds messages and events only; C4 a grouped message directly follows a message of
    its stream.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_ProcedureKindAttr:$kind,
                       OptionalAttr<I64Attr>:$chunk, OptionalAttr<DenseI64ArrayAttr>:$lanes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $kind attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

// Defines every instruction: it has a stream on which it is queued (0 compute, 1.. communication)
// and an origin.
class Plan_Instruction<string mnemonic, dag extra, list<Trait> traits = []>
    : Plan_Op<mnemonic, traits> {
  dag common = (ins I64Attr:$stream, OptionalAttr<Plan_OriginAttr>:$origin);
  let arguments = !con(extra, common);
}

def Plan_LaunchOp : Plan_Instruction<"launch",
    (ins Variadic<Plan_Buffer>:$reads, Variadic<Plan_Buffer>:$writes,
         // Scalars are one CoordExpr per kernel scalar, as [base, coef of axis 0, ...].
         OptionalAttr<ArrayAttr>:$scalars,
         OptionalAttr<Plan_RoutesAttr>:$routes,
         // EmitKernels sets the kernel, its rows and its extents.
         OptionalAttr<StrAttr>:$kernel, OptionalAttr<I64Attr>:$rows,
         OptionalAttr<DenseI64ArrayAttr>:$extents),
    [AttrSizedOperandSegments, SingleBlock, IsolatedFromAbove]> {
  let summary = "runs a group of graph ops with one reduction root as one kernel";
  let description = [{
    The body's arguments are the tensors in `reads`, then one tensor<i64> for every entry
    of `scalars`; it yields one tensor per buffer in
    `writes`. A buffer may stand in both (in-place), if the op reads element i
    only to write element i. `kernel` computes any range of the `rows` rows; `extents` are sizes
    that it gets as further scalars. `routes` tells of a router in the source what the launch writes.
    Example:
    ```mlir
    plan.launch reads(%x, %w1 : !plan.buffer<4x32xf32>, !plan.buffer<32xf32>)
        writes(%y : !plan.buffer<4x32xf32>)
        attributes {stream = 0 : i64, kernel = "add", rows = 4, extents = array<i64: 7>,
                    scalars = [array<i64: 0, 0, 0, 16>],
                    origin = #plan.origin<"graph.add" nodes ["h.0/add", "h.1/add"]>} {
    ^bb0(%a: tensor<4x32xf32>, %b: tensor<32xf32>, %offset: tensor<i64>):
      %r = graph.add %a, %b : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
      plan.yield %r : tensor<4x32xf32>
    }
    ```
    Rules: C1 argument and yield types match the buffers; C2 a scalar is
    array<i64: base, coefficient per mesh axis>; C3 kernel and rows come together; C4 a launch with
    routes is one graph.route or graph.limit_routes, whose result has as many dims as they have sizes.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `reads` `(` ($reads^ `:` type($reads))? `)` `writes` `(` ($writes^ `:` type($writes))? `)` attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}
def Plan_GroupOp : Plan_Op<"group", [Pure, SingleBlock, IsolatedFromAbove]> {
  let summary = "graph ops that one launch will compute together";
  let description = [{
    Stands among graph ops between FuseKernels and BuildProcedures. The body's arguments
    are the inputs; it yields the results. An input that is tensor<i64> and comes from
    parallel.axis_offset becomes a scalar of the launch.
    Example:
    ```mlir
    %0:2 = plan.group(%a, %b : tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>, tensor<4xf32> {
    ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
      %1 = graph.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %2 = graph.tanh %1 : (tensor<4xf32>) -> tensor<4xf32>
      plan.yield %1, %2 : tensor<4xf32>, tensor<4xf32>
    }
    ```
    Rules: C1 argument and yield types match inputs and results; C2 the body holds
    graph ops that compute.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` ($inputs^ `:` type($inputs))? `)` `->` type($results) attr-dict-with-keyword $body";
  let hasVerifier = 1;
}
def Plan_MatmulOp : Plan_Instruction<"matmul",
    (ins StrAttr:$equation, Plan_Buffer:$lhs, Plan_Buffer:$rhs, Plan_Buffer:$out,
         UnitAttr:$accumulate,
         // EmitKernels sets both fallbacks.
         OptionalAttr<StrAttr>:$fallback, OptionalAttr<StrAttr>:$fallback_accumulate)> {
  let summary = "library call: out (+)= sum of products (equation as in graph.matmul)";
  let description = [{
    `accumulate` adds the product to `out`. `fallback` and `fallback_accumulate` name the emitted
    kernels that compute the same, and the same added to `out`, where the library is missing.
    Example:
    ```mlir
    plan.matmul "ad,bd->ab" %x, %y into %z accumulate
        {stream = 0, fallback = "matmul", fallback_accumulate = "matmul_add"}
        : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>, !plan.buffer<4x4xf32>
    ```
    Rules: C1 ranks agree with the equation; C2 a letter has one size and stands
    once in a tensor; C3 letters of the result come from operands, the others
    stand in both operands.
  }];
  let assemblyFormat = "$equation $lhs `,` $rhs `into` $out (`accumulate` $accumulate^)? attr-dict `:` type($lhs) `,` type($rhs) `,` type($out)";
  let hasVerifier = 1;
}
def Plan_GroupedMatmulOp : Plan_Instruction<"grouped_matmul",
    (ins Plan_Buffer:$lhs, Plan_Buffer:$rhs, Plan_Buffer:$routes, Plan_Buffer:$out,
         UnitAttr:$transposed, UnitAttr:$accumulate, OptionalAttr<DenseI64ArrayAttr>:$offset,
         // EmitKernels sets both fallbacks.
         OptionalAttr<StrAttr>:$fallback, OptionalAttr<StrAttr>:$fallback_accumulate)> {
  let summary = "library call: products of routed rows, as graph.grouped_matmul or grouped_outer";
  let description = [{
    It is a graph.grouped_matmul (`transposed` as there) if `out` has the routes' dims, else a
    graph.grouped_outer, and `accumulate` adds to `out` (of an outer product alone). `offset`: base, then
    one coefficient a mesh axis, of the first expert that the rank has. Fallbacks as in plan.matmul: the
    kernels of one expert's product.
    Example:
    ```mlir
    plan.grouped_matmul %x, %w by %r into %z {stream = 0}
        : !plan.buffer<2x4xf32>, !plan.buffer<5x4x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x3xf32>
    ```
    Rules: C1 the shapes are those of a graph.grouped_matmul or graph.grouped_outer; C2 only an outer
    product accumulates, and only a product with weights is transposed.
  }];
  let assemblyFormat = "$lhs `,` $rhs `by` $routes `into` $out (`accumulate` $accumulate^)? attr-dict `:` type($lhs) `,` type($rhs) `,` type($routes) `,` type($out)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    // Returns whether it is a graph.grouped_outer.
    bool isOuter();
  }];
}
def Plan_CollectiveOp : Plan_Instruction<"collective",
    (ins Plan_CollectiveKindAttr:$kind, Graph_ReduceKindAttr:$reduce, Plan_Buffer:$src, Plan_Buffer:$dst,
         Variadic<Plan_Buffer>:$counts, StrArrayAttr:$axes, OptionalAttr<DenseI64ArrayAttr>:$members, OptionalAttr<I64Attr>:$slices)> {
  let summary = "one collective of the group over `axes`";
  let description = [{
    `reduce` is read by all_reduce and reduce_scatter; `members` keeps only these coordinates of the
    single axis. `slices`, of a gather or a reduce-scatter: so many equal slices of a shard, one behind the
    other, are each gathered or scattered for itself (a tensor's rows, where a dimension behind them is cut).
    Example:
    ```mlir
    plan.collective all_to_all <sum> %x into %y over ["pp"] {stream = 1}
        : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>
    ```
    `counts`, of exchange_rows alone: how many rows go to each member, and come from each.
    Rules: C1 at least one axis; C2 members need a single axis; C3 element types
    agree; C4 element counts fit the kind; C5 slices divide the shard of a gather or a reduce-scatter;
    C6 rows are exchanged by two counts, i64 of one size, and have one last dim.
  }];
  let hasVerifier = 1;
  let assemblyFormat = "$kind $reduce $src `into` $dst (`counts` $counts^ `:` type($counts))? `over` $axes (`members` $members^)? (`slices` $slices^)? attr-dict `:` type($src) `,` type($dst)";
}
def Plan_SendOp : Plan_Instruction<"send",
    (ins Variadic<Plan_Buffer>:$parts, StrAttr:$axis, I64Attr:$delta, I64Attr:$channel,
         UnitAttr:$wrap, UnitAttr:$grouped, OptionalAttr<I64Attr>:$lane)> {
  let summary = "one message of all parts to the rank `delta` further along `axis`";
  let description = [{
    `channel` orders the messages of a (source, destination) pair; both ends agree on it. The
    message ends when it is received: the stream waits until then.
    `wrap`: the axis is a ring. `grouped`: starts together with the message before it, and the
    stream continues when both have ended (ncclGroupStart, ncclGroupEnd). `lane` is that of the
    parts (0 if missing).
    Example:
    ```mlir
    plan.send %y, %x to "pp" 1 channel 0 {stream = 2}
        : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>
    ```
  }];
  let assemblyFormat = "$parts `to` $axis $delta (`wrap` $wrap^)? `channel` $channel attr-dict `:` type($parts)";
}
def Plan_RecvOp : Plan_Instruction<"recv",
    (ins Variadic<Plan_Buffer>:$parts, StrAttr:$axis, I64Attr:$delta, I64Attr:$channel,
         UnitAttr:$wrap, UnitAttr:$grouped, OptionalAttr<I64Attr>:$lane)> {
  let summary = "the matching receive";
  let description = [{
    Receives from the rank `delta` further along `axis`; all else is as in plan.send.
    Example: `plan.recv %x from "tp" -1 wrap channel 2 {stream = 3} : !plan.buffer<4x32xf32>`
  }];
  let assemblyFormat = "$parts `from` $axis $delta (`wrap` $wrap^)? `channel` $channel attr-dict `:` type($parts)";
}
def Plan_CopyOp : Plan_Instruction<"copy", (ins Plan_Buffer:$src, Plan_Buffer:$dst)> {
  let summary = "dst = src";
  let description = [{
    Example: `plan.copy %y into %x {stream = 0} : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>`
    Rules: C1 both have the same number of bytes.
  }];
  let hasVerifier = 1;
  let assemblyFormat = "$src `into` $dst attr-dict `:` type($src) `,` type($dst)";
}
def Plan_FillOp : Plan_Instruction<"fill", (ins Plan_Buffer:$dst)> {
  let summary = "dst = zero bytes";
  let description = [{ Example: `plan.fill %w {stream = 0} : !plan.buffer<2x32xf32>` }];
  let assemblyFormat = "$dst attr-dict `:` type($dst)";
}
def Plan_FeedOp : Plan_Instruction<"feed", (ins StrAttr:$input, Plan_Buffer:$dst)> {
  let summary = "this rank's rows of an input of the entry's micro-batch";
  let description = [{
    Copies this rank's part of the input of that name.
    Example: `plan.feed "input_ids" into %ids {stream = 0} : !plan.buffer<4xi64>`
  }];
  let assemblyFormat = "$input `into` $dst attr-dict `:` type($dst)";
}
def Plan_RecordOp : Plan_Instruction<"record",
    (ins I64Attr:$event, UnitAttr:$whole_step, OptionalAttr<I64Attr>:$lane)> {
  let summary = "marks an event when the stream gets here";
  let description = [{
    Records `event` for the slot of the entry's lane `lane` (0 if missing), or with `step`
    (`whole_step`) once for all slots.
    Example: `plan.record 1 {stream = 2}`
  }];
  let assemblyFormat = "$event (`step` $whole_step^)? attr-dict";
}
def Plan_WaitOp : Plan_Instruction<"wait",
    (ins I64Attr:$event, UnitAttr:$whole_step, OptionalAttr<I64Attr>:$lane)> {
  let summary = "holds the stream until the event is marked";
  let description = [{
    Waits for the most recent record of `event` with the same pool and slot, or with `step`
    (`whole_step`) of all slots; it does not wait if there is none.
    Example: `plan.wait 3 step {stream = 0}`
  }];
  let assemblyFormat = "$event (`step` $whole_step^)? attr-dict";
}
def Plan_YieldOp : Plan_Op<"yield", [Terminator, Pure]> {
  let summary = "ends the body of a launch or group";
  let description = [{
    Yields one tensor for each buffer in `writes` of a launch, or for each result of a group.
    Example: `plan.yield %r : tensor<4x32xf32>`
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), "build($_builder, $_state, ::mlir::ValueRange());">];
}

#endif

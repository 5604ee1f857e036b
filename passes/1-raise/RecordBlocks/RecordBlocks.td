def RecordBlocks : Pass<"llmc-record-blocks", "::mlir::ModuleOp"> {
  let summary = "writes into graph.model what was recognised";
  let description = [{
    Needs: the end of phase 1.
    Gives: `graph.model.blocks`, e.g. ["attention x2", "mlp x2", "layer norm x5",
      "embedding x1", "head x1"]: how often each kind of block is run. An MLP is
      an activation between two matmuls, an embedding a gather from a
      parameter, a head a matmul with a parameter that gives a result of @forward.
    Keeps: everything else.
    Example: test/passes/1-raise/record-blocks.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}

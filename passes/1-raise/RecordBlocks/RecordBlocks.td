def RecordBlocks : Pass<"llmc-record-blocks", "::mlir::ModuleOp"> {
  let summary = "writes into graph.model what was recognised";
  let description = [{
    Needs: the end of phase 1.
    Gives: `graph.model.blocks`, e.g. ["attention x2", "rotary x4", "mlp x2",
      "rms norm x5", "embedding x1", "head x1"]: how often each kind of block is
      run. An MLP is an activation between two matmuls, gated or not, an
      embedding a gather from a parameter, a head a matmul with a parameter of
      which a result of @forward is a function, element by element.
      `graph.model.active_parameters` unless it is there: with mixtures of experts the parameters
      that one token uses, as many experts' as it chooses.
    Keeps: everything else.
    Example: test/passes/1-raise/record-blocks.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}

def RaisePositions : Pass<"llmc-raise-positions", "::mlir::func::FuncOp"> {
  let summary = "reads consecutive rows of a table as a slice";
  let description = [{
    Needs: constants folded.
    Gives: a gather whose ids are a constant n, n + 1, ... along the last dim,
      equal in every other dim, is a `graph.slice` of the table, broadcast where
      the ids repeat. A later sum broadcasts by itself.
    Keeps: the table as a whole: rows that are not read stay part of the
      parameter.
    Example: test/passes/1-raise/raise-positions.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}

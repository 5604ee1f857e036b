def CheckAnnotations : Pass<"llmc-check-annotations", "::mlir::ModuleOp"> {
  let summary = "holds the cuts of weights against what the model's file asks for";
  let description = [{
    Needs: annotated states; graph.annotation on sources (from the file).
    Gives: an error for every weight that is cut otherwise than its file says, with
      the node that says so.
    Keeps: everything.

    A file may say in how many parts each dimension of a weight is cut (0: it says
    nothing). The tactic `tensor` begins with these wishes; what a later cut made of
    them is held against the file once more, or the person is asked.
    Example: test/passes/3-shard/check-annotations.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}

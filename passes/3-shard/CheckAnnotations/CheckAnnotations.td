def CheckAnnotations : Pass<"llmc-check-annotations", "::mlir::ModuleOp"> {
  let summary = "compares the cuts of weights with what the model's file asks for";
  let description = [{
    Needs: annotated states; graph.annotation on sources (from the file).
    Gives: an error for every weight that is cut otherwise than its file asks, with
      the node that asks so.
    Keeps: everything.

    A file may state in how many parts each dimension of a weight is cut (0: not stated).
    The tactic `tensor` seeds these cuts first; a later cut may still differ from them,
    so the final shardings are compared with the file again.
    Example: test/passes/3-shard/check-annotations.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}

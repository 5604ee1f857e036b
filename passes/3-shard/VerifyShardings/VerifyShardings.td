def VerifyShardings : Pass<"llmc-verify-shardings", "::mlir::ModuleOp"> {
  let summary = "verifies phase 3: annotations agree with the ops' rules";
  let description = [{
    Needs: a module that the tactics annotated.
    Gives: an error for each broken rule: A1 to A7 of
      dialects/parallel/Annotations.h; S1 every repeat of @micro has parallel.layers
      that sum to its count; S2 every op that an axis reaches has an origin for it;
      S3 parallel.flat_axes are axes of data or context parallelism with several
      ranks, the same for all states.
    Keeps: everything.
    Example: test/passes/3-shard/verify-shardings.mlir
  }];
}

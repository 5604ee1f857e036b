def BucketReductions : Pass<"llmc-bucket-reductions", "::mlir::ModuleOp"> {
  let summary = "moves data-parallel gradient reductions into the last backward, in buckets";
  let description = [{
    Needs: in-place all-reduces of accumulators in update procedures, or reduce-scatters of whole
      sums to a rank's part (llmc-flatten-states), or of what a launch before casts an accumulator
      to (llmc-cast-reductions).
    Gives: accumulators adjacent in one buffer, in the order in which the last
      backward finishes them; one all-reduce per bucket of that buffer on stream
      2, started by an event as soon as the bucket's last write is done; the
      update waits for the last of them. Gradients that are partial over other
      axes as well have buckets of their own. A reduce-scatter is a bucket as it is. Casts move
      to the same stream with what reduces them; what the update reads of a sum is persistent then.
    Keeps: the reduced values; the total of reduced bytes.

    A bucket ends at a state or, inside a stacked state, at a layer. The module's
    attribute plan.bucket_pieces holds, for each stage, how many of these pieces each
    bucket has; where it is there already, it decides instead of bucket-bytes (so that
    a scaled-down model is cut like its original).
    Example: test/passes/5-schedule/bucket-reductions.mlir
  }];
  let options = [
    Option<"bucketBytes", "bucket-bytes", "int64_t", "25 << 20",
           "Least size of a bucket; 25 MiB as in PyTorch's DistributedDataParallel">
  ];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
}

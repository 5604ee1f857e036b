def PadDims : Pass<"llmc-pad-dims", "::mlir::ModuleOp"> {
  let summary = "grows dimensions that a sharding cuts but does not divide";
  let description = [{
    Needs: annotated @micro and @update, or @forward of an inference.
    Gives: every dimension divided by the axes that cut it. Dimensions tied by
      the ops' rules are one; it may grow if rows of a table are looked up along
      it (gather, take_along and their gradients) or an output has it (whose
      reader drops the rest), every op treats it as a
      factor of its own, and no input of the step carries it. States grow and
      keep the old sizes in `valid_shape`, outputs in `parallel.valid_shape`.
      Padding of states is undefined but finite; that of accumulators is zero,
      from the step's start on, and so are padded gradients. A reduction over padding
      that is not neutral already gets a `graph.mask_tail` before it (maximum: -inf,
      sum: 0), which all later users read.
    Keeps: everything else; a module that divides is not changed.
    Errors: D1 a dimension that may not grow is divided by its axes (the message
      gives the nearest valid sizes); D2 padding is reduced only by ops with a
      neutral element.
    Example: test/passes/4-partition/pad-dims.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let statistics = [
    Statistic<"numPadded", "padded dimensions", "dimensions that grew">,
    Statistic<"numMasked", "masks", "mask_tail ops put in">,
  ];
}

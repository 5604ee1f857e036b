def Differentiate : Pass<"llmc-differentiate", "::mlir::ModuleOp"> {
  let summary = "adds the backward half of @micro: the gradient of every parameter";
  let description = [{
    Needs: `@micro` with pairs of results `graph.primal = i` and
      `graph.cotangent = i`; parameters bound by `graph.state`.
    Gives: a state `@p.grad`, accumulator of @p, for each parameter @p; @micro
      takes them behind the parameters and returns them first, in argument
      order, each with the gradient added. The pairs are gone. The
      accumulator of a parameter with `graph.bias_rate` counts tokens, in f32. A gradient of a
      parameter in a low type is computed in the accumulator's type as far back
      as nothing else reads it, so that products and sums round once.
      Backward ops carry `graph.backward`, the location of the op they are the
      gradient of, and, where a result is the whole cotangent of a forward
      op's result, `graph.cotangent_of`: two integers per result, the forward
      op's `graph.id` and its result index (-1, -1: none).
      A `graph.repeat` gets stacked results for the values that its gradient
      reads, and a second repeat in reverse order; accumulators of
      stacked parameters are updated inside it, one slice an iteration.
    Keeps: forward ops and their order. Reshapes and constants that a gradient
      reads are rematerialized rather than kept, and so are places, which follow
      from indices alone, and low values in f32: they are kept low.
    Errors: an op without gradient between a parameter and a primal. A
      parameter that no primal depends on is a warning.
    Example: test/passes/2-train/differentiate.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"gradient", "gradient", "std::string", /*default=*/"\"f32\"",
           "element type of the accumulators of parameters in 32 bits or less: f32, bf16 or f16">,
  ];
  let statistics = [
    Statistic<"numKept", "kept values", "stacked results added to repeats">,
    Statistic<"numRematerialized", "redone values", "reshapes and constants done again for gradients">,
  ];
}

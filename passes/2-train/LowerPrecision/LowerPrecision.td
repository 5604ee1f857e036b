def LowerPrecision : Pass<"llmc-lower-precision", "::mlir::ModuleOp"> {
  let summary = "decides the element types of a model that computes in bf16 or f16";
  let description = [{
    Needs: `func.func @forward`; its parameters bound by `graph.state`.
    Gives: parameters of the type `element`, states and arguments alike; the
      values that depend on them in the types that GraphOpInterface's
      getPrecisionRule states, with a graph.cast wherever an operand comes in
      another type: products, attention and what layers carry in `element`,
      statistics of norms, sums and log-sum-exps in f32. Arithmetic on weights
      alone (1 + scale) is done in f32. Where activations meet a tensor that is
      not computed from weights and is in f32 (a mask, a table), both are f32;
      the sum of two activations of one shape, of which one is in f32, is low.
      Results of @forward keep their types.
      With `element` f32, what depends on a low parameter of the file is f32.
    Keeps: tensors that depend on no parameter, such as positions, tables and
      masks; f64; ops, their order and their names.
    Types are decided here alone: gradients follow the types of what they are
    gradients of, accumulators the option of llmc-differentiate, and kernels
    those of the tensors that they read and write.
    Example: test/passes/2-train/lower-precision.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"element", "element", "std::string", /*default=*/"\"bf16\"", "f32, bf16 or f16">,
  ];
  let statistics = [
    Statistic<"numLow", "low values", "values that became low">,
    Statistic<"numCasts", "casts", "casts inserted">,
  ];
}

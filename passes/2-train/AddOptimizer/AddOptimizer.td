def AddOptimizer : Pass<"llmc-add-optimizer", "::mlir::ModuleOp"> {
  let summary = "adds @update: mean gradient, clip by global norm, one optimizer step";
  let description = [{
    Needs: `@micro` with an accumulator for each parameter, `@loss.sum` and
      `@tokens.sum`; parameters in f32, bf16 or f16.
    Gives: `@update(weights, accumulators, moments, scalars)`. The weight of a
      parameter @p in f32 is @p itself, else its master `@p.master` in f32, of
      which the new @p is the rounded value. Moments
      `@p.m` and `@p.v` are states of @p, in f32. Scalars are tensor<f32> inputs: lr,
      weight_decay and clip, for AdamW also beta1, beta2, eps,
      bias_correction1 and bias_correction2 (1 - beta^t).
      It returns the new parameters, the new masters, the accumulators (now the mean gradient,
      before clipping), the new moments, and the outputs loss, grad_norm and
      tokens. A step without tokens has gradient zero. Further sums of @micro have the name of an
      output as `graph.sum_of`: moe_lost and moe_dropped are given as they are; the mean of moe_aux is added to
      the loss, and what the loss is without it is the output cross_entropy.
      Weight decay is for parameters of rank 2 and more, not counting the
      stacked dimension, whose sources have that too. Clip 0 is off.
      `scaled`: the mean gradient is divided by the scalar loss_scale too.
      A parameter with `graph.bias_rate`, the bias of a router (llmc-balance-experts), has the moments of
      a gradient that is zero: its accumulator has the number of tokens that chose each expert (its last dimension), then by how much
      that is above the mean of the experts. @update subtracts bias_rate where it is above and adds it where it is
      below (Wang et al., 2024, "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts",
      algorithm 1). It takes part neither in the norm nor in weight decay.
      `skip`: where the norm is not finite, all states but the accumulators keep
      their bits, by a select; the output skipped is then 1, else 0.
    Keeps: @micro.
    Example: test/passes/2-train/add-optimizer.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"adamw", "adamw", "bool", /*default=*/"true", "AdamW, else SGD without momentum">,
    Option<"scaled", "scaled", "bool", /*default=*/"false",
           "gradients are multiplied by the scalar loss_scale">,
    Option<"skip", "skip", "bool", /*default=*/"false",
           "keep parameters, masters and moments where a gradient is not finite">,
  ];
}

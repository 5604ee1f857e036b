def BalanceExperts : Pass<"llmc-balance-experts", "::mlir::ModuleOp"> {
  let summary = "makes routers spread tokens over their experts: by an auxiliary loss, or by their biases";
  let description = [{
    Needs: `@forward` with routes (graph.route), before it has a loss.
    Gives: with `aux_loss` above 0 a result `graph.output = "moe_aux"`, [batch]: for each row of tokens the
      sum over all routers of aux_loss x sum over experts i of f_i P_i (DeepSeek-AI, 2024, "DeepSeek-V3",
      equations 17 to 20), where f_i = experts / (choices x tokens) x (tokens of the row that choose i)
      and P_i is the mean over the row's tokens of the scores, divided by their sum. A softmax sums
      to 1 already; scores that are neither of a softmax nor of a sigmoid are logits of a softmax. All tokens
      and choices count, also those that graph.limit_routes leaves out. Loads f_i have no gradient.
      llmc-add-loss adds the result, each row times the number of its labels that count.
      With `bias_rate` above 0 each bias of a router's choice has the mark `graph.bias_rate`, and a
      result `graph.output = "moe_bias"`, a scalar, is the sum of the biases of all choices: its
      gradient with respect to a bias is the number of tokens that choose the expert, which llmc-differentiate
      accumulates over the step, and by which llmc-add-optimizer moves the bias.
    Keeps: everything else. Sums over tokens are those of the global program: no mesh changes them.
    Rules: B1 with `aux_loss` scores are [batch, tokens, experts], so that a row is a sequence; B2 with `bias_rate`
      every router has a bias, which is a parameter.
    Example: test/passes/2-train/balance-experts.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"auxLoss", "aux-loss", "double", /*default=*/"0", "factor of the auxiliary loss; 0: none">,
    Option<"biasRate", "bias-rate", "double", /*default=*/"0", "what a step moves a bias by; 0: nothing">,
  ];
  let statistics = [Statistic<"numRouters", "routers", "routers that are balanced">];
}

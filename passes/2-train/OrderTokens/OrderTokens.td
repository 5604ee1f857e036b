def OrderTokens : Pass<"llmc-order-tokens", "::mlir::ModuleOp"> {
  let summary = "reorders the tokens of causal rows, so that ranks which share them have equal work";
  let description = [{
    Needs: a function whose inputs have rows of tokens, [rows, tokens], and whose attention is causal.
    Gives: the loader of each such input permutes its tokens in 2 `ranks` equal blocks, in the order
      0, last, 1, last but one, ... Rank r of `ranks`, which takes two neighbouring blocks, then has
      block r and block 2 ranks - 1 - r of the row: with early tokens that see few keys, as many late
      ones that see many ("zigzag" or striped order: Brandon et al., 2023, "Striped Attention"; Dubey
      et al., 2024, "The Llama 3 Herd of Models", section 3.3.2). Attention gets the positions of its
      rows and keys; what depends on the place of a token but not on the tokens (indices, tables of
      positions) is looked up by these positions. Where tokens keep their order (no attention is
      causal, or `zigzag` is false), what parameters give each place is looked up all the same: the
      gradient of a table is then a sum over ranks, taken once a step, where that of a slice would be
      gathered in every micro-batch.
    Keeps: all values that have no tokens, so also losses and gradients. A function with an op that
      depends on the order of tokens, or whose outputs have tokens, keeps its order, and a remark says
      why.
    Errors: T1 the blocks do not divide the tokens.
    Example: test/passes/2-train/order-tokens.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "ranks that share out the tokens of a row">,
    Option<"zigzag", "zigzag", "bool", /*default=*/"true", "reorders tokens where attention is causal">,
  ];
  let statistics = [
    Statistic<"numLookups", "lookups", "values that are looked up by positions">,
  ];
}

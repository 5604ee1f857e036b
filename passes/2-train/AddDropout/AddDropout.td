def AddDropout : Pass<"llmc-add-dropout", "::mlir::ModuleOp"> {
  let summary = "drops elements of a model at random while it trains";
  let description = [{
    Needs: `func.func @forward`, whose first `graph.input` is [rows, tokens] of ids, and which looks
      tokens up in a parameter.
    Gives: `graph.dropout` (Srivastava et al., 2014) at the places where transformers have it, each
      with its own rate, of which 0 leaves a place as it is:
      - `embedding`: what the layers start from, the sum of the embeddings (and its norm, if that
        stands before the first layer);
      - `attention`: the weights of each attention, inside of graph.attention, or behind the softmax
        where attention is written out;
      - `attention-output` and `mlp-output`: each branch before it is added to the residual stream. A
        branch begins at a product of the stream and ends at an addition of equal types to the
        stream. Of branches that are added to each other first each is dropped by itself.
      The input `dropout_keys` of one i64 a row, which the loader makes. A repeat gets it as a captured
      value, and as a stacked constant the number of each layer: layers of all repeats count from 1
      on, 0 stands for what is outside of them. Places of one block are numbered in order, also those
      of rate 0, so that one rate does not change what another drops.
    Keeps: all other ops, and the results' types. Nothing is added that has the size of a mask: a key
      has one element for each row, the other draws one for each token, feature, head or layer.
    Errors: D1 a rate above 0 has no place in the model; D2 the value at a place is no [rows, tokens,
      features] of the batch (or the weights of an attention no [rows, heads, tokens, keys]), so that
      its elements have no position; D3 an input is called dropout_keys already.
    Example: test/passes/2-train/add-dropout.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"embedding", "embedding", "double", /*default=*/"0", "rate of the embeddings' sum">,
    Option<"attention", "attention", "double", /*default=*/"0", "rate of the attention weights">,
    Option<"attentionOutput", "attention-output", "double", /*default=*/"0", "rate of what attention adds">,
    Option<"mlpOutput", "mlp-output", "double", /*default=*/"0", "rate of what an MLP adds">,
  ];
  let statistics = [
    Statistic<"numPlaces", "places", "dropouts added, those of folded layers once">,
  ];
}

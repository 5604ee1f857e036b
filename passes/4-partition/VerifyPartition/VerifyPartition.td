def VerifyPartition : Pass<"llmc-verify-partition", "::mlir::ModuleOp"> {
  let summary = "verifies phase 4: the functions of the stages are consistent";
  let description = [{
    Needs: the end of the phase.
    Gives: an error for each breach of
      C1 no reshard and no annotation is left on an op;
      C2 every collective carries an origin: node, rule and tactic, none empty;
      C3 no group has one member;
      C4 every virtual stage has one forward and one backward, every stage of the mesh one update,
         (of an inference a forward alone), and there is no other function;
      C5 every argument and result has exactly one binding;
      C6 the boundary values of two neighbour stages are numbered from 0 and have one
         type and one sharding on both sides; none leads out of the pipeline;
      C7 the residuals of a stage are made by its forward, read by its
         backward, with one type and one sharding;
      C8 an argument or result of a state has the type of the state's part, and
         is in a stage that holds the state;
      C9 the parts of a split state cover every layer exactly once, and no
         state is without holder;
      C10 every holder of a parameter updates it, and its accumulator and
         moments with it (but in an inference);
      C11 every output leaves one stage, and inputs are those of `graph.inputs`
         (in an inference).
    Keeps: everything.
    Example: test/passes/4-partition/verify-partition.mlir
  }];
}

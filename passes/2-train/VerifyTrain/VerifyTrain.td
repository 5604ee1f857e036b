def VerifyTrain : Pass<"llmc-verify-train", "::mlir::ModuleOp"> {
  let summary = "closes the phase: every parameter is learned exactly once";
  let description = [{
    Needs: the end of the phase.
    Gives: an error for each breach of
      C1 the module has @micro and @update and no @forward;
      C2 an argument or result with `graph.state` names a state of its type;
      C3 no state is bound twice among a function's arguments, or results;
      C4 every parameter is an argument of @micro, and it or its master one of @update;
      C5 every parameter has exactly one accumulator, of its shape;
      C6 @micro takes every accumulator and returns them in argument order, and
         returns nothing else;
      C7 no forward op of @micro reads what a backward op (`graph.backward`)
         makes; the body of a repeat is of the repeat's kind;
      C8 no op of @micro is dead, and no stacked result of a repeat;
      C9 @update takes and returns every parameter, its accumulator and its moments;
      C10 @update returns the outputs loss, grad_norm and tokens, each a
         tensor<f32>;
      C11 parameters in less than 32 bits, and no others, have a master.
    Keeps: everything.
    Example: test/passes/2-train/verify-train.mlir
  }];
}

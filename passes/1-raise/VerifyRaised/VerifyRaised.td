def VerifyRaised : Pass<"llmc-verify-raised", "::mlir::ModuleOp"> {
  let summary = "checks what the later phases rely on";
  let description = [{
    Needs: the end of phase 1.
    Gives: an error for each broken rule. R1: each float argument of @forward
      that is not an input is bound to a state, each state to one argument. R2:
      no element of a source belongs to two parameters, or twice to one. R3: each
      repeat carries a value. A remark where a softmax between two matmuls was
      not recognised as attention, with what that costs.
    Keeps: the module.
    Example: test/passes/1-raise/verify-raised.mlir
  }];
}

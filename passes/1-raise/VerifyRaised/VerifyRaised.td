def VerifyRaised : Pass<"llmc-verify-raised", "::mlir::ModuleOp"> {
  let summary = "checks what the later phases rely on";
  let description = [{
    Needs: the end of phase 1.
    Gives: an error for each broken rule. R1: each float argument of @forward
      that is not an input is bound to a state, each state to one argument. R2:
      no element of a source belongs to two parameters, or twice to one. R3: each
      repeat carries a value. One remark lists what looks like an attention, a
      norm, a rotary embedding, a mixture of experts or a layer and was not recognised, and what that
      costs (there is none if `remark` is false: nothing was to be recognised).
    Keeps: the module.
    Example: test/passes/1-raise/verify-raised.mlir
  }];
  let options = [Option<"remark", "remark", "bool", "true", "say what was not recognised">];
}

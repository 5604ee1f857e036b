def Recompute : Pass<"llmc-recompute", "::mlir::ModuleOp"> {
  let summary = "lets backward compute again what forward would have to keep";
  let description = [{
    Needs: @forward_K and @backward_K on local types, with layers still folded (phase 4).
    Gives: fewer residuals: what is no longer kept is computed again in the backward, before its
      first reader, from what is kept, from parameters and from inputs. Of a layer and of the ops
      around the layers the values are kept that take the fewest bytes together: a minimum cut
      between what cannot be computed again and what backward reads; of equal ones the latest, so
      that the least is computed again.
      `selective` computes again elementwise ops, norms, movement and products of two activations;
      never a product with a weight, fused attention, a collective or what depends on one alone
      (Korthikanti et al., 2022, section 5). `full` computes all of a layer again from its input,
      collectives too; dead parts of it are left out, and an op that backward has anyway (a gather
      of the sequence for the gradient of a weight, a gather of weights) is not done twice. Around
      the layers it is `selective`. `none` changes nothing.
      `auto` keeps at most `budgets` bytes for a micro-batch of each stage, and runs again what costs
      least: the FLOPs of ops, and of a collective those that a chip does while it moves (1,100 a
      byte), or nothing where backward makes the same call anyway. Anything may run again but
      `graph.route`: the experts that a token took are kept in every mode, since the same scores from
      another kernel could choose others.
      `plan.kept` records the choice on the module; where it is given, `auto` follows it.
      `plan.recomputed` lists, on the module, each value that is computed again, what that costs and
      what it saves.
    Keeps: all values, bit for bit, as ops define them (kernels of several ops round less).
    Errors: an unknown mode, a `plan.kept` that does not fit the functions. A remark says that `full` found no folded layers.
    Example: test/passes/5-schedule/recompute.mlir
  }];
  let options = [
    Option<"mode", "mode", "std::string", "\"none\"", "none, selective, full or auto">,
    ListOption<"budgets", "budgets", "int64_t",
               "for auto: bytes that a micro-batch may keep, of each forward function; any without it">,
  ];
  let statistics = [
    Statistic<"numRedone", "redone values", "residuals that backward computes again">,
  ];
  let dependentDialects = ["::llmc::graph::GraphDialect", "::llmc::parallel::ParallelDialect"];
}

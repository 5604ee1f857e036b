def SplitStages : Pass<"llmc-split-stages", "::mlir::ModuleOp"> {
  let summary = "one forward, backward and update function per stage";
  let description = [{
    Needs: `parallel.stage` on the top-level ops of @micro (an op without it
      goes where its operands come from), `parallel.layers` on its repeats if
      there are several stages; backward ops carry `graph.backward`.
    Gives: @forward_K, @backward_K for every virtual stage K, marked with the stage of the mesh
      that runs it and its chunk there, and @update_S for every stage S of the mesh, on global
      types, bound by `graph.state` (with `parallel.layers = [first, count]`
      for a part of a stacked state), `graph.input`, `graph.output`,
      `parallel.boundary` and `parallel.residual`; `parallel.stages` on states.
      A value that a later stage needs, also in its backward pass, passes through all
      stages between; a reshape is sent as its operand. What backward needs of forward is
      kept, never recomputed, but for ops without operands and reshapes.
      A state used by several stages is held by all of them; each adds its
      share of the gradient, and @update sums the shares over the holders.
      What depends on inputs alone is recomputed in every stage that needs it,
      and never sent.
      Of an inference (`graph.mode`): @forward alone becomes @forward_K; outputs
      leave the stage that makes them; the module's `graph.inputs`
      lists name, type and sharding of all inputs, and how many rows the tables have
      that an input indexes (`limit`).
      Sums over all parameters count a part where it is owned, and are then
      summed over "pp"; the outputs are those of every stage alike. The output
      `skipped` is the largest of all ranks, whichever of them holds a gradient that is
      not finite.
    Keeps: all ops of the step, each in exactly one stage (ops of @update that
      only handle scalars: in all).
    Errors: S1 `parallel.layers` sums to the repeat's count; S2 a forward value
      may not be needed by an earlier stage, nor a backward value by the forward pass; S3 a stacked value is split in one way;
      S4 @update does not mix tensors of different parameters; S5 the layers of a state are in one
      chunk.
    Example: test/passes/4-partition/split-stages.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}

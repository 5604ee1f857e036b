// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-verify-schedule

module attributes {graph.mode = "infer"} {
  // expected-error @+1 {{table runs micro-batch 0 1 times forward and 1 times backward, expected once and never}}
  plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], arena_bytes = 0,
                                 table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>]} {
    plan.procedure @forward forward {
    }
    plan.procedure @backward backward {
    }
  }
}

// -----

module attributes {graph.mode = "infer"} {
  // expected-error @+1 {{table of an inference has an update}}
  plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], arena_bytes = 0,
                                 table = [#plan.entry<@forward, 0, 0>, #plan.entry<@update, 0, 0>]} {
    plan.procedure @forward forward {
    }
    plan.procedure @update update {
    }
  }
}

// 1F1B of two stages and three micro-batches as plans were once written: a receive on the
// compute stream where its procedure begins, a send on a stream of its own direction where
// its procedure ends, nothing grouped. Streams order it well; but a device that runs what one
// rank issues in one order stands at send F1 of stage 0 and send B0 of stage 1 for ever.
module attributes {
  parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>,
  graph.model = {name = "two stages", layers = 2 : i64},
  plan.options = {schedule = "1f1b", micro_batch = 1 : i64, micro_batches = 3 : i64, global_batch = 3 : i64, optimizer = "sgd"}
} {
  plan.stage @stage0 attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 2>], arena_bytes = 256 : i64,
      table = [#plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 2, 0>,
               #plan.entry<@backward, 1, 1>, #plan.entry<@backward, 2, 0>, #plan.entry<@update, 0, 0>]} {
    %h = plan.buffer slot {offset = 0 : i64, slot_stride = 128 : i64} : !plan.buffer<16xf32>
    %dh = plan.buffer slot {offset = 64 : i64, slot_stride = 128 : i64} : !plan.buffer<16xf32>
    plan.procedure @forward forward {
      plan.wait 1 {stream = 0 : i64}
      plan.fill %h {stream = 0 : i64} : !plan.buffer<16xf32>
      plan.record 0 {stream = 0 : i64}
      plan.wait 0 {stream = 2 : i64}
      plan.send %h to "pp" 1 channel 0 {stream = 2 : i64} : !plan.buffer<16xf32>
      plan.record 1 {stream = 2 : i64}
    }
    plan.procedure @backward backward {
      plan.recv %dh from "pp" 1 channel 1 {stream = 0 : i64} : !plan.buffer<16xf32>
    }
    plan.procedure @update update {
    }
  }
  plan.stage @stage1 attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>], pools = [#plan.pool<0, 1>], arena_bytes = 128 : i64,
      table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 1, 0>, #plan.entry<@backward, 1, 0>,
               #plan.entry<@forward, 2, 0>, #plan.entry<@backward, 2, 0>, #plan.entry<@update, 0, 0>]} {
    %h = plan.buffer slot {offset = 0 : i64, slot_stride = 128 : i64} : !plan.buffer<16xf32>
    %dh = plan.buffer slot {offset = 64 : i64, slot_stride = 128 : i64} : !plan.buffer<16xf32>
    plan.procedure @forward forward {
      plan.recv %h from "pp" -1 channel 0 {stream = 0 : i64} : !plan.buffer<16xf32>
    }
    plan.procedure @backward backward {
      plan.wait 3 {stream = 0 : i64}
      plan.copy %h into %dh {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
      plan.record 2 {stream = 0 : i64}
      plan.wait 2 {stream = 3 : i64}
      plan.send %dh to "pp" -1 channel 1 {stream = 3 : i64} : !plan.buffer<16xf32>
      plan.record 3 {stream = 3 : i64}
    }
    plan.procedure @update update {
    }
  }
}

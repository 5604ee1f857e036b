// Keeps the enums in a file of their own: enum classes are generated for every enum that is in
// sight.
#ifndef LLMC_PLAN_ENUMS
#define LLMC_PLAN_ENUMS
include "mlir/IR/EnumAttr.td"

class Plan_Enum<string name, list<string> cases, string text>
    : I32EnumAttr<name, "", !foreach(i, !range(!size(cases)), I32EnumAttrCase<cases[i], i>)> {
  let description = text;
  let cppNamespace = "::llmc::plan";
  let genSpecializedAttr = 0;
}
def Plan_Space : Plan_Enum<"Space", ["persistent", "step", "slot", "scratch"], [{
    Tells how long a buffer lives: persistent (states; the whole run), step (host scalars, outputs,
    step-wide temporaries), slot (one copy per slot of a pool: what a micro-batch keeps from forward
    to backward, stage-boundary values, inputs), scratch (inside one execution of one procedure).
  }]>;
def Plan_ProcedureKind : Plan_Enum<"ProcedureKind",
    ["forward", "backward", "backward_last", "update", "begin", "weight", "weight_last", "exchange"], [{
    Tells when a procedure runs: begin and update once, at the start and at the end of a step, the
    others once for a micro-batch. backward_last and weight_last are the last micro-batch's and also
    start the reductions of gradients. Where backward is split, backward computes what the previous
    stage waits for and weight the gradients of weights. exchange holds messages only.
  }]>;
def Plan_CollectiveKind : Plan_Enum<"CollectiveKind",
    ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "exchange_rows"],
    "Selects the collective, as in NCCL; the root of broadcast is the group's first member.">;

#endif

// Keeps the enums in a file of their own: enum classes are generated for every enum that is in
// sight.
#ifndef LLMC_PLAN_ENUMS
#define LLMC_PLAN_ENUMS
include "mlir/IR/EnumAttr.td"

class Plan_Enum<string name, list<string> cases>
    : I32EnumAttr<name, "", !foreach(i, !range(!size(cases)), I32EnumAttrCase<cases[i], i>)> {
  let cppNamespace = "::llmc::plan";
  let genSpecializedAttr = 0;
}
// Lists where a buffer lives and how long: persistent (states; the whole run), step (host scalars,
// outputs, step-wide temporaries), slot (one copy per slot of a pool: what a micro-batch keeps from
// forward to backward, stage-boundary values, inputs), scratch (inside one execution of one
// procedure).
def Plan_Space : Plan_Enum<"Space", ["persistent", "step", "slot", "scratch"]>;
def Plan_ProcedureKind : Plan_Enum<"ProcedureKind",
    ["forward", "backward", "backward_last", "update", "begin", "weight", "weight_last", "exchange"]>;
def Plan_CollectiveKind : Plan_Enum<"CollectiveKind",
    ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]>;

#endif

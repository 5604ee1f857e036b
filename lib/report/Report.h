// Reports what a plan holds, for people and scripts. Every figure is computed from the plan: its
// tables, instructions, states and arena. Tests: test/planfile/ReportTest.cpp.
#ifndef LLMC_LIB_REPORT_REPORT_H
#define LLMC_LIB_REPORT_REPORT_H

#include "lib/planfile/plan_generated.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace llmc::report {

// Returns the object of `inspect --json`, for a plan that checkBounds accepts:
//   model {name, parameters, layers, blocks, active_parameters (those that one token uses; of mixtures
//   alone)}, mode (train|infer), recompute, memory_limit (bytes; 0: none),
//   experts {experts, local_experts, budget, budget_most, capacity} (of mixtures, else null; rows for which
//   a rank of ep has room, and for how many it takes to hold all; rows that an expert takes if they are
//   limited by --moe-capacity; each by the average; 0: no limit),
//   sequence_parallel (on|off), cp_kind (ring|heads|none), dropout (rates),
//   attention_flops [of a step, by coordinate along cp, of one rank of each stage together],
//   inputs [{name, dtype, shape}], outputs [same], parameters,
//   parameter_shapes {name: shape}, parameter_types {name: how the model's files have it},
//   constants, mesh, ranks, micro_batch, micro_batches, schedule (none of an inference),
//   stages [{stage, first_layer, last_layer, chunks [{first_layer, last_layer, slots}], slots,
//   in_flight, arena_bytes, live_bytes}] (in_flight: the most (chunk, micro-batch) pairs that are
//   alive at once),
//   memory [{stage, arena_bytes, weights, gradients, ...}] (the kinds of Memory.h),
//   collectives [{name, kind, axes, stage, phase, bytes, per_step, origin, source}],
//   sends [{name, axis, stage, chunk, phase, from_stage, to_stage, bytes, per_step}],
//   table [{stage, column, kind (F|B|W|U), chunk, micro_batch}],
//   bubble {cells, empty} (before the update, all stages; F, B and W take a column each), kernels,
//   kernel_uses [{name, source, launches, products}],
//   instructions {kind: count}, state_bytes, file_bytes.
// Shapes are those of one step over all ranks, dtypes are NumPy's names. Counts are those of one
// step and one rank of each stage; instructions and state_bytes are summed over the stages. A
// collective over stages is listed once, for its lowest stage; groups of one rank are not listed.
// `origin` is the first source node, or the operation if the step itself needs it; `source` has
// all of it. `fileBytes` is the size of the file the plan came from.
// `retry`, if there is one, is the plan that a step runs again by whose rows found no room (lib/planfile/Retry.h):
//   retry {budget, arena_bytes} (rows for which a rank of ep has room then; the largest arena), else null.
// All else describes the first plan alone.
nlohmann::json inspectJson(const planfile::ProgramT &program, uint64_t fileBytes,
                           const planfile::ProgramT *retry = nullptr);

// Formats the layers of a stage, those of each chunk: "0-1, 4-5"; "none" where a chunk has none.
std::string layersText(const planfile::StageT &stage);

// Formats the same as tables, with the schedule drawn as a grid: a row for each stage, columns in
// the order that messages allow.
std::string inspectText(const planfile::ProgramT &program, uint64_t fileBytes,
                        const planfile::ProgramT *retry = nullptr);

// Returns the choice of --recompute with the FLOPs of a micro-batch that all stages together compute
// again, as people read them: "full (1,024 FLOPs of a micro-batch again)".
std::string recomputeNote(const planfile::ProgramT &program);

// Draws the grid alone, in at most `columns` columns; the middle of a longer one is left out.
std::string drawSchedule(const planfile::ProgramT &program, unsigned columns = 40);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_REPORT_H

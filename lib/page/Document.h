// Collects what a page tells about a plan, as one JSON document. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_DOCUMENT_H
#define LLMC_LIB_PAGE_DOCUMENT_H

#include "lib/page/MeasuredFiles.h"
#include "lib/simulate/Forecast.h"
#include "lib/support/Json.h"

namespace llmc::page {

// Changes when a reader of an older document would misread a newer one.
inline constexpr int kVersion = 1;

// Returns the object of llmc report --json. Keys are in this order; seconds, bytes and FLOP/s are plain numbers:
//   page_version, kind ("program"), compiler
//   model {name, parameters, layers, active_parameters (of mixtures)}
//   mesh (MeshPicture.h)
//   choices [[name, value]]
//   cluster {name, accelerators, memory_bytes, usable_bytes, per_node, domain}
//   step {seconds, tokens, tokens_per_s, tokens_per_s_per_rank, mfu, hfu (null where they are not known), bubble_fraction,
//     peak_bytes, peak_stage (of the largest arena), fits, process_bytes (all ranks of one process; null on accelerators)}
//   findings [{title, text}]: where time goes, whether it fits, what communication costs most and why
//   stages [{stage, rank (that stands for it), layers, compute_s, idle_s, exposed_s {axes: seconds}, other_s (of a step beside these)}]
//   timeline (Events.h)
//   memory (MemoryCurve.h)
//   traffic (Traffic.h)
//   measured null, or {trace (readTrace() of Measured.h), metrics (readMetrics())}, each null without its file
support::Result<support::OrderedJson> documentOf(const planfile::ProgramT &program, const cost::Machine &machine,
                                                 const MeasuredFiles &measured);

// Returns the document for a page of a prediction alone: {page_version, kind ("prediction"), schedule (entries as those of
// Events.h, in columns: all passes as long; null where it is too long to be drawn), prediction}, the last of which is the
// object of llmc plan --json.
support::OrderedJson documentOf(const nlohmann::json &prediction);

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_DOCUMENT_H

// Places the ranks of a mesh on the nodes of a cluster, and tells which links each axis uses. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_MESHPICTURE_H
#define LLMC_LIB_PAGE_MESHPICTURE_H

#include "lib/page/Subject.h"
#include "lib/support/Json.h"

#include <string>

namespace llmc::page {

// Returns {text, ranks, nodes, ranks_per_node, ranks_per_domain, atoms [{name, size}] (a rank is the row-major index of its
// coordinate over them), stage_atom, axes [{name, size, atoms [indices], link, nodes (that a group spans), text}]}.
support::OrderedJson meshJson(const Subject &subject);

// Returns what the ranks of a group along these atomic axes reach each other by: "memory" (of one machine), "domain" (the
// links of one NVLink domain) or "network"; of messages what the first two of them do, as lib/cost prices all.
std::string linkOf(const Subject &subject, const std::vector<uint32_t> &axes);
std::string linkOfMessages(const Subject &subject, const std::vector<uint32_t> &axes);

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_MESHPICTURE_H

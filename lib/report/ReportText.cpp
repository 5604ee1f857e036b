#include "lib/planfile/CheckWalk.h"
#include "lib/report/Report.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
namespace {

using Row = std::vector<std::string>;

// Columns wide enough for their cells, numbers to the right.
std::string table(const std::vector<Row> &rows) {
  std::vector<size_t> width(rows[0].size(), 0);
  for (const Row &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      width[c] = std::max(width[c], row[c].size());
  std::ostringstream out;
  for (const Row &row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      std::string pad(width[c] - row[c].size(), ' ');
      bool number = !row[c].empty() && row[c].find_first_not_of("0123456789,.") == std::string::npos;
      line += "  " + (number ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
  return out.str();
}

// 1234567 -> "1,234,567".
std::string grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string joined(const json &list, const char *separator) {
  std::string text;
  for (const json &item : list)
    text += (text.empty() ? "" : separator) + item.get<std::string>();
  return text;
}

std::string number(const json &value) { return grouped(value.get<uint64_t>()); }

std::string stageTable(const json &stages) {
  std::vector<Row> rows = {{"stage", "layers", "slots", "arena bytes", "live bytes"}};
  for (const json &s : stages) {
    int64_t first = s["first_layer"], last = s["last_layer"];
    rows.push_back({number(s["stage"]),
                    last < first ? "none" : std::to_string(first) + "-" + std::to_string(last),
                    number(s["slots"]), number(s["arena_bytes"]), number(s["live_bytes"])});
  }
  return table(rows);
}

std::string collectiveTable(const json &collectives) {
  std::vector<Row> rows = {{"stage", "phase", "kind", "axes", "bytes", "a step", "why"}};
  for (const json &c : collectives) {
    std::string rule = c["source"]["rule"], tactic = c["source"]["tactic"];
    std::string why = c["origin"].get<std::string>();
    if (!tactic.empty() || !rule.empty())
      why += " (" + tactic + (tactic.empty() || rule.empty() ? "" : ": ") + rule + ")";
    rows.push_back({number(c["stage"]), c["phase"], c["kind"], joined(c["axes"], " x "),
                    number(c["bytes"]), number(c["per_step"]), why});
  }
  return table(rows);
}

std::string bindingTable(const json &bindings) {
  std::vector<Row> rows = {{"name", "type", "shape"}};
  for (const json &b : bindings)
    rows.push_back({b["name"], b["dtype"], b["shape"].dump()});
  return table(rows);
}

std::string sendTable(const json &sends) {
  std::vector<Row> rows = {{"from stage", "to stage", "bytes", "a step"}};
  for (const json &s : sends)
    rows.push_back({number(s["from_stage"]), number(s["to_stage"]), number(s["bytes"]),
                    number(s["per_step"])});
  return table(rows);
}

std::string label(const ProcedureT &procedure, const EntryT &entry) {
  switch (procedure.kind) {
  case ProcedureKind::Begin:
    return "";
  case ProcedureKind::Forward:
    return "F" + std::to_string(entry.micro_batch);
  case ProcedureKind::Backward:
  case ProcedureKind::BackwardLast:
    return "B" + std::to_string(entry.micro_batch);
  case ProcedureKind::Update:
    return "U";
  }
  return "?";
}

// The column of each table row: after the row before it on its stage and after
// the rows whose messages it receives. Rows without a label take no column.
std::vector<std::vector<size_t>> columnsOf(const ProgramT &program) {
  Trace trace = buildTrace(program, 1);
  std::vector<std::vector<size_t>> column(program.stages.size());
  std::vector<std::vector<std::vector<uint32_t>>> receives(program.stages.size());
  for (size_t s = 0; s < program.stages.size(); ++s)
    receives[s].resize(program.stages[s]->table.size());
  for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
    const Node &node = trace.nodes[n];
    if (node.inst->body.type == Body::Recv && node.partner >= 0)
      receives[node.stage][node.entry].push_back(static_cast<uint32_t>(node.partner));
  }
  // Sweeps over the stages until none moves; a plan in a deadlock stops early.
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < column.size(); ++s) {
      while (column[s].size() < receives[s].size()) {
        size_t row = column[s].size(), at = row ? column[s].back() : 0;
        bool known = true;
        for (uint32_t sender : receives[s][row]) {
          const Node &from = trace.nodes[sender];
          known &= from.entry < column[from.stage].size();
          if (known)
            at = std::max(at, column[from.stage][from.entry]);
        }
        if (!known)
          break;
        const EntryT &entry = *program.stages[s]->table[row];
        bool drawn = !label(*program.stages[s]->procedures[entry.procedure], entry).empty();
        column[s].push_back(at + (drawn ? 1 : 0)); // one past the column it takes
        moved = true;
      }
    }
  }
  return column;
}

} // namespace

std::string drawSchedule(const ProgramT &program, unsigned columns) {
  std::vector<std::vector<size_t>> column = columnsOf(program);
  size_t width = 3 + std::to_string(program.micro_batches).size();
  std::ostringstream out;
  for (size_t s = 0; s < program.stages.size(); ++s) {
    const StageT &stage = *program.stages[s];
    std::string line;
    bool cut = false;
    for (size_t row = 0; row < column[s].size(); ++row) {
      const EntryT &entry = *stage.table[row];
      std::string text = label(*stage.procedures[entry.procedure], entry);
      if (text.empty())
        continue;
      size_t at = column[s][row] - 1;
      if ((cut |= at >= columns))
        break;
      line.resize(std::max(line.size(), at * width), ' ');
      line += text;
    }
    out << "  stage " << std::setw(3) << std::left << s << line << (cut ? " ..." : "") << "\n";
  }
  return out.str();
}

std::string inspectText(const ProgramT &program, uint64_t fileBytes) {
  json j = inspectJson(program, fileBytes);
  std::ostringstream out;
  const json &model = j["model"];
  out << "model     " << model["name"].get<std::string>() << ": "
      << number(model["parameters"]) << " parameters in " << j["parameters"].size()
      << " tensors, " << model["layers"] << " layers";
  if (!model["blocks"].empty())
    out << " (" << joined(model["blocks"], ", ") << ")";
  out << "\nconstants " << (j["constants"].empty() ? "none" : joined(j["constants"], ", "))
      << "\nmesh      ";
  const char *separator = "";
  for (const auto &axis : program.mesh->axes) {
    out << separator << axis->name << " " << axis->size;
    separator = " x ";
  }
  out << ": " << number(j["ranks"]) << " ranks\nbatch     ";
  if (j["mode"] == "infer")
    out << program.global_batch << " rows a run (inference)";
  else
    out << j["micro_batches"] << " micro-batches of " << j["micro_batch"] << " rows, schedule "
        << j["schedule"].get<std::string>();
  out << "\nbytes     " << number(j["state_bytes"])
      << " of state over the stages, " << number(j["file_bytes"]) << " in the file\n";
  if (j["mode"] == "infer")
    out << "\ninputs\n" << bindingTable(j["inputs"]) << "\noutputs\n" << bindingTable(j["outputs"]);
  out << "\nstages\n" << stageTable(j["stages"]);
  out << "\nschedule\n" << drawSchedule(program);
  if (!j["collectives"].empty())
    out << "\ncollectives of one rank\n" << collectiveTable(j["collectives"]);
  if (!j["sends"].empty())
    out << "\nmessages\n" << sendTable(j["sends"]);
  out << "\ninstructions a step\n";
  std::vector<Row> counts = {{"kind", "count"}};
  for (const auto &[kind, count] : j["instructions"].items())
    counts.push_back({kind, number(count)});
  out << table(counts) << "\nkernels\n";
  for (const json &name : j["kernels"])
    out << "  " << name.get<std::string>() << "\n";
  return out.str();
}

} // namespace llmc::report

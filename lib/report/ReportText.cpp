#include "lib/planfile/AxisNames.h"
#include "lib/planfile/CheckWalk.h"
#include "lib/report/Report.h"
#include "lib/report/Text.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
namespace {

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

// Bytes of one rank's arena by kind, a column a stage; kinds that no stage has are left out.
std::string memoryTable(const json &memory) {
  const size_t most = 8; // stages; further ones are like those in the middle
  std::vector<size_t> shown;
  for (size_t s = 0; s < memory.size(); ++s)
    if (memory.size() <= most || s < most - 1 || s + 1 == memory.size())
      shown.push_back(s);
  std::vector<Row> rows = {{"bytes of one rank"}};
  for (size_t s : shown)
    rows[0].push_back("stage " + std::to_string(s));
  for (const char *kind : {"weights", "gradients", "optimizer", "activations", "outputs", "constants",
                           "workspace", "gaps", "arena_bytes"}) {
    Row row = {kind == std::string("arena_bytes") ? "arena" : kind};
    bool any = false;
    for (size_t s : shown) {
      row.push_back(number(memory[s][kind]));
      any |= memory[s][kind] != 0;
    }
    if (any)
      rows.push_back(row);
  }
  return table(rows);
}

// "graph.add tensor<4xf32>, ...; graph.gelu ...; graph.gelu ..." -> "add + 2 gelu, tensor<4xf32>".
std::string sourceText(const std::string &source) {
  std::vector<std::pair<std::string, size_t>> ops;
  std::string first;
  for (size_t at = 0; at < source.size();) {
    size_t end = std::min(source.find("; ", at), source.size());
    std::string part = source.substr(at, end - at), name = part.substr(0, part.find(' '));
    name = name.substr(name.find('.') + 1);
    if (size_t type = part.find("tensor<"); first.empty() && type != std::string::npos)
      first = ", " + part.substr(type, part.find('>', type) + 1 - type);
    if (!ops.empty() && ops.back().first == name)
      ++ops.back().second;
    else if (!name.empty())
      ops.push_back({name, 1});
    at = end + 2;
  }
  std::string text;
  for (const auto &[name, count] : ops)
    text += (text.empty() ? "" : " + ") + (count > 1 ? std::to_string(count) + " " : "") + name;
  return text + first;
}

std::string kernelTable(const json &kernels) {
  std::vector<Row> rows = {{"kernel", "a step", "source ops"}};
  for (const json &k : kernels) {
    uint64_t launches = k["launches"], products = k["products"];
    std::string source = sourceText(k["source"].get<std::string>());
    if (products)
      source += (source.empty() ? "" : "; ") + grouped(products) +
                " products, where the library is missing";
    rows.push_back({k["name"], grouped(launches), source});
  }
  return table(rows);
}

std::string collectiveTable(const json &collectives) {
  std::vector<Row> rows = {{"stage", "phase", "kind", "axes", "bytes", "a step", "why"}};
  const size_t most = 60;
  for (const json &c : collectives) {
    if (rows.size() > most) {
      rows.push_back({"...", "", "", "", "", "", "llmc explain lists all, " + grouped(collectives.size())});
      break;
    }
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
  size_t width = 3 + std::to_string(program.micro_batches).size(), total = 0;
  for (const auto &list : column)
    for (size_t at : list)
      total = std::max(total, at);
  // Of many columns the first two thirds and the last third of what there is room for.
  size_t head = total, tail = total;
  if (total > columns) {
    head = columns * 2 / 3;
    tail = total - (columns - head);
  }
  std::ostringstream out;
  uint64_t idle = 0, slots = 0;
  for (size_t s = 0; s < program.stages.size(); ++s) {
    const StageT &stage = *program.stages[s];
    std::string line;
    uint64_t busy = 0;
    for (size_t row = 0; row < column[s].size(); ++row) {
      const EntryT &entry = *stage.table[row];
      std::string text = label(*stage.procedures[entry.procedure], entry);
      if (text.empty())
        continue;
      size_t at = column[s][row] - 1;
      busy += text != "U";
      if (at >= head && at < tail)
        continue;
      size_t place = at < head ? at * width : (at - tail + head) * width + 5;
      line.resize(std::max(line.size(), place), ' ');
      line += text;
    }
    if (head < tail) {
      line.resize(std::max(line.size(), head * width + 5), ' ');
      line.replace(head * width, 3, "...");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << "  stage " << std::setw(3) << std::left << s << line << "\n";
    slots += total > 0 ? total - 1 : 0; // the update comes last
    idle += (total > 0 ? total - 1 : 0) - std::min<uint64_t>(busy, total > 0 ? total - 1 : 0);
  }
  if (program.mode == Mode::Train && program.stages.size() > 1 && slots)
    out << "  bubble: " << idle << " of " << slots
        << " columns before the update are empty, if all of them take as long\n";
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
      << "\nmesh      " << planfile::meshText(*program.mesh, " ", " x ") << ": " << number(j["ranks"]) << " ranks\nbatch     ";
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
  out << "\nmemory\n" << memoryTable(j["memory"]);
  out << "\nschedule\n" << drawSchedule(program);
  if (!j["collectives"].empty())
    out << "\ncollectives of one rank (llmc explain says why)\n" << collectiveTable(j["collectives"]);
  if (!j["sends"].empty())
    out << "\nmessages\n" << sendTable(j["sends"]);
  out << "\ninstructions a step\n";
  std::vector<Row> counts = {{"kind", "count"}};
  for (const auto &[kind, count] : j["instructions"].items())
    counts.push_back({kind, number(count)});
  out << table(counts) << "\nkernels\n" << kernelTable(j["kernel_uses"]);
  return out.str();
}

} // namespace llmc::report

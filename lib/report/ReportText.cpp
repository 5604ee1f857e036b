#include "lib/planfile/AxisNames.h"
#include "lib/report/ElementTypes.h"
#include "lib/report/Memory.h"
#include "lib/report/Report.h"
#include "lib/report/Text.h"
#include "lib/report/Timeline.h"
#include "lib/support/FlagSetters.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
namespace {

std::string stageTable(const ProgramT &program, const json &stages) {
  std::vector<Row> rows = {{"stage", "layers", "slots", "arena bytes", "live bytes"}};
  for (const json &s : stages)
    rows.push_back({number(s["stage"]), layersText(*program.stages[s["stage"].get<size_t>()]), number(s["slots"]),
                    number(s["arena_bytes"]), number(s["live_bytes"])});
  return table(rows);
}

std::vector<Row> transposed(const std::vector<Row> &rows) {
  std::vector<Row> result(rows[0].size());
  for (const Row &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      result[c].push_back(row[c]);
  return result;
}

// Formats the bytes of one rank's arena by kind, a column for each stage; kinds that no stage has
// are left out. If there are many stages each has a row instead.
std::string memoryTable(const json &memory) {
  std::vector<Row> rows = {{"bytes of one rank"}};
  for (size_t s = 0; s < memory.size(); ++s)
    rows[0].push_back("stage " + std::to_string(s));
  std::vector<const char *> kinds = kindsOfMemory();
  kinds.push_back("arena_bytes");
  for (const char *kind : kinds) {
    Row row = {kind == std::string("arena_bytes") ? "arena" : kind};
    bool any = false;
    for (const json &stage : memory) {
      row.push_back(number(stage[kind]));
      any |= stage[kind] != 0;
    }
    if (any)
      rows.push_back(row);
  }
  return table(memory.size() > 8 ? transposed(rows) : rows);
}

// Shortens a kernel's source: "graph.add tensor<4xf32>, ...; graph.gelu ...; graph.gelu ..." ->
// "add + 2 gelu, tensor<4xf32>".
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
      source += (source.empty() ? "" : "; ") + countOf(products, "product") +
                ", where the library is missing";
    rows.push_back({k["name"], groupDigits(launches), source});
  }
  return table(rows);
}

std::string collectiveTable(const json &collectives) {
  std::vector<Row> rows = {{"stage", "phase", "kind", "axes", "bytes", "a step", "why"}};
  const size_t most = 60;
  for (const json &c : collectives) {
    if (rows.size() > most) {
      rows.push_back({"...", "", "", "", "", "", "llmc explain lists all, " + groupDigits(collectives.size())});
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

// Labels a cell: "F3", or "F3.1" on a stage with several chunks.
std::string label(const Cell &cell, bool chunks) {
  if (cell.kind == 'U')
    return "U";
  std::string text = cell.kind + std::to_string(cell.microBatch);
  return chunks ? text + "." + std::to_string(cell.chunk) : text;
}

} // namespace

std::string drawSchedule(const ProgramT &program, unsigned columns) {
  Timeline timeline = timelineOf(program);
  bool chunks = std::any_of(program.stages.begin(), program.stages.end(),
                            [](const auto &stage) { return stage->chunks.size() > 1; });
  size_t width = 3 + std::to_string(program.micro_batches).size() + (chunks ? 2 : 0), total = 0;
  for (const auto &cells : timeline.stages)
    for (const Cell &cell : cells)
      total = std::max<size_t>(total, cell.column + 1);
  // Keeps of many columns the first two thirds and the last third of what fits.
  size_t head = total, tail = total;
  if (total > columns) {
    head = columns * 2 / 3;
    tail = total - (columns - head);
  }
  std::ostringstream out;
  for (size_t s = 0; s < timeline.stages.size(); ++s) {
    std::string line;
    for (const Cell &cell : timeline.stages[s]) {
      size_t at = cell.column;
      if (at >= head && at < tail)
        continue;
      size_t place = at < head ? at * width : (at - tail + head) * width + 5;
      line.resize(std::max(line.size(), place), ' ');
      line += label(cell, chunks);
    }
    if (head < tail) {
      line.resize(std::max(line.size(), head * width + 5), ' ');
      line.replace(head * width, 3, "...");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << "  stage " << std::setw(3) << std::left << s << line << "\n";
  }
  if (program.mode == Mode::Train && program.stages.size() > 1 && timeline.cells)
    out << "  bubble: " << timeline.empty << " of " << timeline.cells
        << " cells (stages x columns) before the update are empty, if all take as long\n";
  return out.str();
}

// Lists the types, each with its roles: "bf16: weights, activations; fp32: masters".
static std::string typesText(const ProgramT &program) {
  std::vector<std::pair<std::string, std::string>> byType;
  for (auto [role, type] : elementTypesOf(program)) {
    std::replace(role.begin(), role.end(), '_', ' ');
    auto found = std::find_if(byType.begin(), byType.end(),
                              [&](const auto &entry) { return entry.first == type; });
    if (found == byType.end())
      byType.push_back({type, role});
    else
      found->second += ", " + role;
  }
  std::string text;
  for (const auto &[type, roles] : byType)
    text += (text.empty() ? "" : "; ") + type + ": " + roles;
  return text;
}

std::string layersText(const planfile::StageT &stage) {
  std::string list;
  for (const auto &chunk : stage.chunks)
    list += (list.empty() ? "" : ", ") + (chunk->last_layer < chunk->first_layer
                                               ? std::string("none")
                                               : support::text(chunk->first_layer, "-", chunk->last_layer));
  return list;
}

std::string recomputeNote(const planfile::ProgramT &program) {
  if (program.recompute == "none" || program.recompute.empty())
    return "none";
  double flops = 0;
  for (const auto &one : program.recomputed)
    if (!one->kept)
      flops += one->flops * one->layers;
  return program.recompute + " (" + (flops > 0 ? groupDigits(uint64_t(flops)) + " FLOPs" : "nothing") +
         " of a micro-batch again)";
}

static std::string expertsText(const json &experts, const json &retry) {
  if (experts.is_null())
    return "";
  std::string text =
      "\nexperts   " + number(experts["experts"]) + ", " + number(experts["local_experts"]) + " on a rank";
  if (double budget = experts["budget"]; budget < experts["budget_most"].get<double>())
    text += ", which has room for " + support::realText(budget) + " times the average of rows (" +
            support::realText(experts["budget_most"]) + " would hold all" +
            (retry.is_null() ? "" : ", as a step has that runs again, in an arena of " + number(retry["arena_bytes"]) + " bytes") + ")";
  else if (experts["local_experts"] < experts["experts"])
    text += ", which has room for all rows";
  if (double capacity = experts["capacity"]; capacity > 0)
    text += "; an expert takes " + support::realText(capacity) + " times its share of a row of tokens";
  return text;
}

std::string inspectText(const ProgramT &program, uint64_t fileBytes, const ProgramT *retry) {
  json j = inspectJson(program, fileBytes, retry);
  std::ostringstream out;
  const json &model = j["model"];
  out << "model     " << model["name"].get<std::string>() << ": "
      << countOf(model["parameters"], "parameter")
      << (model.contains("active_parameters") ? " (" + number(model["active_parameters"]) + " for each token)" : "")
      << " in " << countOf(j["parameters"].size(), "tensor")
      << ", " << countOf(model["layers"], "layer");
  if (!model["blocks"].empty())
    out << " (" << joined(model["blocks"], ", ") << ")";
  out << "\nconstants " << (j["constants"].empty() ? "none" : joined(j["constants"], ", "))
      << "\nmesh      " << planfile::meshText(*program.mesh, " ", " x ") << ": " << countOf(j["ranks"], "rank")
      << expertsText(j["experts"], j["retry"]) << "\nbatch     ";
  if (j["mode"] == "infer")
    out << countOf(program.global_batch, "row") << " a run (inference)";
  else
    out << countOf(j["micro_batches"], "micro-batch") << " of " << countOf(j["micro_batch"], "row")
        << ", schedule " << j["schedule"].get<std::string>()
        << ", recompute " << recomputeNote(program) << ", dropout " << j["dropout"].get<std::string>();
  if (program.memory_limit)
    out << ", memory limit " << number(j["memory_limit"]) << " bytes";
  out << "\ntypes     " << typesText(program);
  out << "\nbytes     " << number(j["state_bytes"])
      << " of state over the stages, " << number(j["file_bytes"]) << " in the file\n";
  if (j["mode"] == "infer")
    out << "\ninputs\n" << bindingTable(j["inputs"]) << "\noutputs\n" << bindingTable(j["outputs"]);
  out << "\nstages\n" << stageTable(program, j["stages"]);
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

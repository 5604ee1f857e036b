// Formats the answers of explain in words.
#include "lib/report/Explain.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

using nlohmann::json;

namespace llmc::report {
namespace {

std::string str(const json &j, const char *key) { return j.at(key).get<std::string>(); }
uint64_t num(const json &j, const char *key) { return j.at(key).get<uint64_t>(); }
const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

//===-- All -----------------------------------------------------------------===//

// Prints the names of a group of entries: all, or of many the first three and the last.
void printMembers(std::ostringstream &out, const std::vector<json> &members) {
  std::vector<Row> rows;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members.size() > 6 && i > 2 && i + 1 < members.size()) {
      if (i == 3)
        rows.push_back({"  ... " + std::to_string(members.size() - 4) + " more", "", "", "", ""});
      continue;
    }
    const json &m = members[i];
    rows.push_back({"  " + str(m, "name"), "stage " + std::to_string(num(m, "stage")),
                    groupDigits(num(m, "bytes")), "x " + groupDigits(num(m, "per_step")),
                    groupDigits(num(m, "step_bytes"))});
    if (m.contains("time_s")) // with prices
      for (const char *key : {"time_s", "step_s", "exposed_s"})
        rows.back().push_back(secondsText(m[key].get<double>()));
  }
  if (rows.front().size() > 5)
    for (Row &row : rows)
      row.resize(8);
  out << table(rows);
}

// Formats for how long compute waits, of a priced answer (lib/advise).
std::string waitText(double seconds, double share) {
  char percent[32];
  std::snprintf(percent, sizeof percent, " (%.1f %% of the step)", 100 * share);
  return secondsText(seconds) + percent;
}

std::string sizeOf(const std::vector<json> &members) {
  uint64_t bytes = 0, calls = 0;
  double seconds = 0, exposed = 0, share = 0;
  for (const json &m : members) {
    bytes += num(m, "step_bytes");
    calls += num(m, "per_step");
    seconds += m.value("step_s", 0.0);
    exposed += m.value("exposed_s", 0.0);
    share += m.value("share", 0.0);
  }
  std::string text = groupDigits(calls) + " call" + plural(calls) + ", " + groupDigits(bytes) + " bytes a step";
  if (members.front().contains("time_s"))
    text += ": " + secondsText(seconds) + ", of which compute waits " + waitText(exposed, share);
  return text;
}

// Prints what is computed again in backward, what that costs and what it saves.
void printRecomputed(std::ostringstream &out, const json &list) {
  if (list.empty())
    return;
  out << "\nComputed again in the backward (--recompute): FLOPs of one layer and micro-batch, and the bytes\n"
         "of activations that are then not kept: of a layer x layers x micro-batches in flight. While one\n"
         "layer is computed again it needs room, so that the arena falls by less\n";
  for (bool kept : {false, true}) {
    std::vector<Row> rows;
    for (const json &one : list) {
      if (one["kept"] != kept)
        continue;
      std::set<std::string> ops;
      for (const json &op : one["ops"])
        ops.insert(op.get<std::string>().substr(op.get<std::string>().find('.') + 1));
      std::string by = kept ? "" : groupDigits(uint64_t(one["flops"].get<double>())) + " FLOPs";
      rows.push_back({"  " + str(one, "op") + " of " + str(one, "node"),
                      "stage " + std::to_string(num(one, "stage")), by,
                      groupDigits(num(one, "bytes")) + " x " + std::to_string(num(one, "layers")) + " x " +
                          std::to_string(num(one, "slots")),
                      kept          ? ""
                      : ops.empty() ? "comes along"
                                    : "by " + joined(json(ops), ", ")});
    }
    if (rows.empty())
      continue;
    if (kept)
      out << "kept for that, which was not kept before\n";
    out << table(rows);
  }
}

std::string allText(const json &answer) {
  std::ostringstream out;
  // Keeps the groups in the order of their first members.
  std::vector<std::string> order;
  std::map<std::string, std::vector<json>> groups;
  uint64_t total = 0;
  auto add = [&](const json &entry, const std::string &title) {
    if (groups[title].empty())
      order.push_back(title);
    groups[title].push_back(entry);
    total += num(entry, "step_bytes");
  };
  for (const json &c : answer["collectives"])
    add(c, str(c, "kind") + " over " + joined(c["axes"], " x ") + ", " + str(c, "phase") + ": " +
               str(c, "pattern"));
  for (const json &s : answer["sends"])
    add(s, "send of " + str(s, "pattern") + " to the " +
               (str(s, "phase") == "forward" ? "next" : "previous") + " stage");
  if (order.empty()) {
    out << "no collectives, no messages: every rank has all it needs\n";
    printRecomputed(out, answer["recomputed"]);
    return out.str();
  }
  out << "What a step moves between ranks: bytes of one call on one rank, calls a step, and both\n"
         "together, of one rank of each stage. A name explains: llmc explain OUT NAME; so do names\n"
         "of nodes, parameters and kinds of ops, and `schedule`.\n";
  if (answer.contains("prediction"))
    out << "Behind them what one call takes on " << str(answer["prediction"], "cluster")
        << ", all of a step, and for how much of that\ncompute waits, of a step of "
        << secondsText(answer["prediction"]["simulated_step_s"].get<double>()) << " (simulated).\n";
  for (const std::string &title : order) {
    out << "\n" << title << " (" << sizeOf(groups[title]) << ")\n";
    printMembers(out, groups[title]);
  }
  out << "\n" << groupDigits(total) << " bytes a step\n";
  printRecomputed(out, answer["recomputed"]);
  return out.str();
}

//===-- One collective --------------------------------------------------------===//

// Returns ": " and the meaning of a rule of the tactics; "" if its name alone is clear.
std::string meaningOf(const std::string &rule) {
  static const std::map<std::string, std::string> meanings = {
      {"row cut", "what the product sums over is cut, so each rank has the sum of its own part"},
      {"vocabulary cut", "each rank has a part of the vocabulary's rows, and zeros for the others"},
      {"partial reduction", "the dimension that is reduced is cut"},
      {"heads", "heads are cut"},
      {"column cut", "output features are cut"},
      {"rows", "rows of the batch are cut"},
      {"tokens", "tokens of a row are shared out; attention reaches those of other ranks as --cp-kind says"},
      {"sequence", "tokens of a row are cut between a row cut and the next column cut"},
      {"state held by several stages", "each of them adds its own share to the gradient"},
      {"partial sums", "each rank adds up its own rows or parameters"}};
  auto it = meanings.find(rule);
  return it == meanings.end() ? "" : ": " + it->second;
}

void printWhy(std::ostringstream &out, const json &answer) {
  const json &why = answer["why"];
  if (answer.contains("to_stage")) {
    uint64_t from = num(answer, "stage"), to = num(answer, "to_stage");
    uint64_t chunk = num(answer, "chunk"), toChunk = num(answer, "to_chunk");
    if (chunk + toChunk == 0)
      out << "why         for the boundary between stages " << std::min(from, to) << " and "
          << std::max(from, to);
    else
      out << "why         for the boundary between chunk " << chunk << " of stage " << from << " and chunk "
          << toChunk << " of stage " << to;
  } else {
    out << "why         for " << str(why, "node");
  }
  if (why["is_parameter"].get<bool>())
    out << ", a parameter";
  else if (why["is_node"].get<bool>())
    out << ", a node of the model (" << str(why, "op") << ")";
  else if (!answer.contains("to_stage"))
    out << ", an operation of the step itself";
  if (why["nodes"].size() > 1)
    out << ", and " << why["nodes"].size() - 1 << " more";
  out << "\n";
  if (!str(why, "tactic").empty()) {
    out << "tactic      " << str(why, "tactic");
    if (!str(why, "seed").empty())
      out << ", seeded at " << str(why, "seed");
    out << "\n";
  }
  if (!str(why, "rule").empty())
    out << "rule        " << str(why, "rule") << meaningOf(str(why, "rule")) << "\n";
  out << "partition   " << str(why, "partition") << "\n";
  if (!str(why, "moved").empty())
    out << "            sink-reductions moved it " << str(why, "moved") << "\n";
  if (why.value("recomputed", false))
    out << "            recompute made it again in the backward: the forward does not keep its result\n";
}

void printTensors(std::ostringstream &out, const json &tensors) {
  const size_t most = 12;
  for (size_t i = 0; i < tensors.size() && i < most; ++i) {
    const json &t = tensors[i];
    out << (i ? "            " : "tensors     ") << str(t, "name")
        << (str(t, "name").empty() ? "" : ": ") << str(t, "dtype") << str(t, "layout");
    if (t.contains("needed") && str(t, "needed") != str(t, "layout"))
      out << ", needed " << str(t, "needed");
    out << "; a rank has " << t["local_shape"].dump() << ", " << groupDigits(num(t, "bytes"))
        << " bytes\n";
  }
  if (tensors.size() > most)
    out << "            and " << tensors.size() - most << " more\n";
}

std::string collectiveText(const json &answer) {
  std::ostringstream out;
  bool isSend = answer.contains("to_stage");
  out << str(answer, "name") << ": " << str(answer, "kind");
  if (isSend)
    out << " from stage " << num(answer, "stage") << " to stage " << num(answer, "to_stage");
  else
    out << " over " << joined(answer["axes"], " x ") << " in the " << str(answer, "phase")
        << " of stage " << num(answer, "stage");
  out << "\n";
  printWhy(out, answer);
  printTensors(out, answer["tensors"]);
  out << "bytes       " << groupDigits(num(answer, "bytes")) << " a call, "
      << groupDigits(num(answer, "per_step")) << " call" << plural(num(answer, "per_step"))
      << " a step: " << groupDigits(num(answer, "step_bytes")) << " a step\n";
  if (answer.contains("time_s"))
    out << "time        " << secondsText(answer["time_s"].get<double>()) << " a call, "
        << secondsText(answer["step_s"].get<double>()) << " a step on " << str(answer["prediction"], "cluster")
        << ", of which compute waits " << waitText(answer["exposed_s"].get<double>(), answer["share"].get<double>()) << "\n";
  const json &members = answer["members"];
  out << "members     " << countOf(members["ranks"], "rank") << "; " << num(members, "groups") << " group"
      << plural(num(members, "groups")) << " like this: ";
  std::string groups;
  for (const json &group : members["first_groups"])
    groups += (groups.empty() ? "" : " ") + group.dump();
  out << groups << (members["first_groups"].size() < num(members, "groups") ? " ..." : "") << "\n";
  if (!answer["made_by"].empty())
    out << "made by     " << joined(answer["made_by"], ", ") << "\n";
  if (!answer["read_by"].empty())
    out << "read by     " << joined(answer["read_by"], ", ") << "\n";
  out << "overlap     " << str(answer["overlap"], "text") << "\n";
  const char *head = "instead     ";
  for (const json &other : answer["alternatives"]) {
    out << head << str(other, "text") << priceText(other) << "\n";
    head = "            ";
  }
  return out.str();
}

//===-- A node, a parameter, a kind -------------------------------------------===//

void printCuts(std::ostringstream &out, const json &cuts) {
  if (cuts.empty())
    out << "  on every rank as a whole\n";
  for (const json &cut : cuts) {
    out << "  over " << str(cut, "axis") << ": " << str(cut, "rule") << meaningOf(str(cut, "rule"))
        << "\n    by tactic " << str(cut, "tactic");
    if (cut.contains("node"))
      out << " at " << str(cut, "node");
    if (cut["seeded_here"].get<bool>())
      out << ", which began here";
    else
      out << ", seeded at " << str(cut, "seed");
    if (!str(cut, "came_by").empty())
      out << ", came by " << str(cut, "came_by");
    out << "\n";
  }
}

void printOps(std::ostringstream &out, const json &ops) {
  for (const json &op : ops) {
    out << "\n" << str(op, "op") << (op["backward"].get<bool>() ? ", backward" : "") << "\n";
    printCuts(out, op["cuts"]);
    auto list = [&](const char *what, const json &tensors) {
      for (const json &t : tensors) {
        out << "  " << what << " " << str(t, "dtype") << str(t, "layout");
        if (t.contains("needed") && str(t, "needed") != str(t, "layout"))
          out << ", needed " << str(t, "needed");
        out << (str(t, "name").empty() ? "" : "  " + str(t, "name")) << "\n";
      }
    };
    list("reads ", op["operands"]);
    list("makes ", op["results"]);
  }
}

void printCollectives(std::ostringstream &out, const json &list) {
  if (list.empty())
    return;
  out << "\ncollectives and messages for it\n";
  std::vector<Row> rows;
  for (const json &c : list) {
    rows.push_back({str(c, "name"), groupDigits(num(c, "bytes")),
                    "x " + groupDigits(num(c, "per_step"))});
    if (c.contains("time_s"))
      rows.back().push_back(secondsText(c["step_s"].get<double>()) + " a step");
  }
  out << table(rows);
}

std::string nodeText(const json &answer) {
  std::ostringstream out;
  out << str(answer, "name") << ": "
      << (answer["ops"].empty() ? "an operation of the step itself" : "a node of the model");
  if (!answer["ops"].empty() && answer["ops"][0]["layer"].get<int64_t>() >= 0)
    out << ", layer " << answer["ops"][0]["layer"].get<int64_t>();
  out << "\n";
  printOps(out, answer["ops"]);
  if (!answer["instructions"].empty()) {
    out << "\ninstructions of one rank\n";
    std::vector<Row> rows = {{"stage", "procedure", "kind", "kernel", "a step", "ops"}};
    for (const json &i : answer["instructions"]) {
      std::string ops = str(i, "ops");
      if (!i["with"].empty())
        ops += "  (with " + joined(i["with"], ", ") + ")";
      rows.push_back({std::to_string(num(i, "stage")), str(i, "procedure"), str(i, "kind"),
                      str(i, "kernel"), groupDigits(num(i, "per_step")), ops});
    }
    out << table(rows);
  }
  for (const json &s : answer["saved"])
    out << "\nkept for the backward pass, stage " << num(s, "stage") << ": " << groupDigits(num(s, "bytes"))
        << " bytes a micro-batch in each of " << num(s, "slots") << " slot" << plural(num(s, "slots"))
        << ": " << groupDigits(num(s, "total")) << " bytes of the arena\n";
  printCollectives(out, answer["collectives"]);
  return out.str();
}

std::string parameterText(const json &answer) {
  std::ostringstream out;
  out << str(answer, "name") << ": a parameter " << answer["shape"].dump();
  if (!answer["aliases"].empty())
    out << ", also " << joined(answer["aliases"], ", ");
  out << "\n";
  printCuts(out, answer["cuts"]);
  out << "\nheld by each rank of\n";
  std::vector<Row> rows = {{"stage", "as", "layout", "a rank computes with", "bytes it keeps"}};
  for (const json &s : answer["states"])
    rows.push_back({std::to_string(num(s, "stage")),
                    str(s, "role") + (s["owner"].get<bool>() ? "" : " (a copy)"), str(s, "layout"),
                    s["local_shape"].dump(),
                    groupDigits(num(s, "bytes")) +
                        (num(s, "shared_by") > 1 ? ", 1 of " + std::to_string(num(s, "shared_by")) + " parts" : "")});
  out << table(rows);
  out << "\nread by\n";
  rows.clear();
  for (const json &r : answer["read_by"])
    rows.push_back({str(r, "node"), str(r, "op"), r["backward"].get<bool>() ? "backward" : ""});
  if (!rows.empty())
    out << table(rows);
  printCollectives(out, answer["collectives"]);
  return out.str();
}

std::string kindText(const json &answer) {
  std::ostringstream out;
  out << str(answer, "op") << ": " << answer["nodes"].size() << " in the folded program\n";
  for (const json &node : answer["nodes"]) {
    const json &names = node["names"];
    out << "\n" << joined(names.size() > 4 ? json{names[0], names[1], "...", names.back()} : names, ", ")
        << (node["backward"].get<bool>() ? ", backward" : "");
    if (num(node, "layers"))
      out << " (" << countOf(node["layers"], "layer") << ")";
    out << "\n";
    for (const json &result : node["results"])
      out << "  makes " << str(result, "dtype") << str(result, "layout") << "\n";
    for (const json &cut : node["cuts"])
      out << "  over " << str(cut, "axis") << ": " << str(cut, "rule") << ", tactic "
          << str(cut, "tactic") << ", seeded at " << str(cut, "seed") << "\n";
  }
  return out.str();
}

} // namespace

std::string explainText(const json &answer) {
  std::string what = str(answer, "what");
  return what == "traffic"      ? allText(answer)
         : what == "collective" ? collectiveText(answer)
         : what == "node"       ? nodeText(answer)
         : what == "parameter"  ? parameterText(answer)
         : what == "schedule"   ? scheduleText(answer)
                                : kindText(answer);
}

} // namespace llmc::report

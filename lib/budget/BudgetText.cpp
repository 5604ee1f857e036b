#include "lib/budget/BudgetText.h"

#include "lib/budget/Amount.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

using namespace llmc;
using namespace llmc::budget;
using nlohmann::ordered_json;
using Q = Quantity;

namespace {

ordered_json orNull(std::optional<double> amount) { return amount ? ordered_json(*amount) : ordered_json(nullptr); }

std::string formatted(const char *format, std::optional<double> number) {
  char text[64];
  if (!number)
    return "-";
  std::snprintf(text, sizeof text, format, *number);
  return text;
}

std::string amountOf(std::optional<double> amount) { return amount ? amountText(*amount) : "-"; }

// Holds one column of the table.
struct Column {
  const char *title;
  std::string (*cell)(const Row &row);
};

const Column kColumns[] = {
    {"params", [](const Row &r) { return amountText(r.params); }},
    {"tokens", [](const Row &r) { return amountText(r.tokens); }},
    {"tokens/param", [](const Row &r) { return formatted("%.4g", r.tokens / r.params); }},
    {"FLOPs", [](const Row &r) { return formatted("%.4g", r.flops); }},
    {"loss", [](const Row &r) { return formatted("%.3f", r.loss); }},
    {"MFU", [](const Row &r) { return formatted("%.3g", r.quantities[Q::Mfu]) + (r.isFeasible ? "" : " (above 1)"); }},
    {"GPUs", [](const Row &r) { return formatted("%.5g", r.quantities[Q::Gpus]); }},
    {"days", [](const Row &r) { return formatted("%.4g", r.quantities[Q::Days]); }},
    {"wall days", [](const Row &r) { return formatted("%.4g", r.wallDays); }},
    {"GPU-hours", [](const Row &r) { return amountOf(r.quantities[Q::GpuHours]); }},
    {"dollars", [](const Row &r) { return amountOf(r.quantities[Q::Dollars]); }},
    {"with inference", [](const Row &r) { return formatted("%.4g", r.totalFlops); }},
    {"saves", [](const Row &r) { return r.saved ? formatted("%.1f %%", *r.saved * 100) : "-"; }},
};

// Returns the table without columns that are open in all rows.
std::string tableOf(const std::vector<Row> &rows) {
  std::vector<std::string> lines = {"law         "};
  for (const Row &row : rows)
    lines.push_back(row.law + std::string(12 - std::min<size_t>(12, row.law.size()), ' '));
  for (const Column &column : kColumns) {
    std::vector<std::string> cells = {column.title};
    size_t width = cells[0].size();
    bool isOpen = true;
    for (const Row &row : rows) {
      cells.push_back(column.cell(row));
      width = std::max(width, cells.back().size());
      isOpen &= cells.back() == "-";
    }
    for (size_t i = 0; i < lines.size() && !isOpen; ++i)
      lines[i] += "  " + std::string(width - cells[i].size(), ' ') + cells[i];
  }
  std::string all;
  for (const std::string &line : lines)
    all += line + "\n";
  return all;
}

// Folds a paragraph to lines of 100 columns, those after the first further right.
std::string folded(const std::string &paragraph, const std::string &margin) {
  std::string all, line;
  std::istringstream words(paragraph);
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > 100) {
      all += line + "\n";
      line = margin;
    }
    line += (line.empty() || line == margin ? "" : " ") + word;
  }
  return all + line + "\n";
}

} // namespace

ordered_json budget::answerJson(const Answer &answer) {
  ordered_json out{{"results", ordered_json::array()}};
  for (const Row &row : answer.rows) {
    ordered_json one{{"law", row.law},
                     {"params", row.params},
                     {"tokens", row.tokens},
                     {"tokens_per_param", row.tokens / row.params},
                     {"loss", orNull(row.loss)},
                     {"flops", row.flops},
                     {"mfu", orNull(row.quantities[Q::Mfu])},
                     {"gpu", answer.gpu.empty() ? ordered_json(nullptr) : ordered_json(answer.gpu)},
                     {"gpus", orNull(row.quantities[Q::Gpus])},
                     {"days", orNull(row.quantities[Q::Days])},
                     {"wall_days", orNull(row.wallDays)},
                     {"gpu_hours", orNull(row.quantities[Q::GpuHours])},
                     {"dollars_per_gpu_hour", orNull(row.quantities[Q::Price])},
                     {"dollars", orNull(row.quantities[Q::Dollars])},
                     {"feasible", row.isFeasible}};
    if (row.totalFlops) {
      one["inference_flops"] = *row.inferenceFlops;
      one["total_flops"] = *row.totalFlops;
      one["saved"] = orNull(row.saved);
    }
    one["source"] = row.source;
    one["loss_source"] = row.lossSource.empty() ? ordered_json(nullptr) : ordered_json(row.lossSource);
    out["results"].push_back(std::move(one));
  }
  if (answer.cadence) {
    out["cadence_s"] = {{"young", answer.cadence->young}, {"daly", answer.cadence->daly}};
    out["goodput"] = answer.cadence->goodput;
  }
  return out;
}

std::string budget::answerText(const Answer &answer) {
  std::string all;
  if (!answer.rows.empty()) {
    all = tableOf(answer.rows) + "\n";
    for (const Row &row : answer.rows) {
      all += folded(row.law + ": " + row.source + (row.lossSource.empty() ? "" : "; loss " + row.lossSource), "    ");
    }
  }
  if (answer.cadence)
    all += std::string(all.empty() ? "" : "\n") + "checkpoints after " + formatted("%.1f", answer.cadence->daly) +
           " s of work (Daly, 2006), " + formatted("%.1f", answer.cadence->young) + " s (Young, 1974); " +
           formatted("%.2f", answer.cadence->goodput * 100) + " % of the time is useful at the first\n";
  return all;
}

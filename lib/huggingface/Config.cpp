#include "lib/huggingface/Config.h"

#include <cmath>

using namespace llmc;
using namespace llmc::hf;
using support::Json;

const Json *Config::find(Names names, std::string &found) const {
  for (const char *name : names) {
    auto it = json_->find(name);
    if (it == json_->end() || it->is_null())
      continue;
    found = name;
    return &*it;
  }
  return nullptr;
}

bool Config::has(Names names) const {
  std::string found;
  return find(names, found);
}

bool Config::isNull(Names names) const {
  return !has(names) && llvm::any_of(names, [&](const char *name) { return json_->contains(name); });
}

std::nullopt_t Config::bad(const std::string &name, const char *rule, const Json &got) {
  std::string text = got.dump();
  if (text.size() > 80)
    text = text.substr(0, 80) + "...";
  note(quoted(name) + " must be " + rule + ", got " + text);
  problems_->fields.insert(path_ + name);
  return std::nullopt;
}

void Config::noteBetween(Names fields, const std::string &problem) {
  if (llvm::none_of(fields, [&](const char *name) { return problems_->fields.count(path_ + name) > 0; }))
    note(problem);
}

std::optional<int64_t> Config::asInteger(const std::string &name, const Json &value,
                                         int64_t least, const char *rule) {
  constexpr int64_t most = int64_t(1) << 30;
  bool good = value.is_number_integer() &&
              !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(most)) &&
              value.get<int64_t>() >= least && value.get<int64_t>() <= most;
  if (good)
    return value.get<int64_t>();
  // Names the range where only that is wrong.
  bool isLarge = value.is_number() && value.get<double>() > double(most);
  std::string range = "from " + std::to_string(least) + " to " + std::to_string(most);
  return bad(name, isLarge ? range.c_str() : rule, value);
}

std::optional<double> Config::asPositiveNumber(const std::string &name, const Json &value) {
  if (value.is_number() && value.get<double>() > 0 && std::isfinite(value.get<double>()))
    return value.get<double>();
  return bad(name, "a positive number", value);
}

int64_t Config::positive(Names names, int64_t fallback) {
  std::string name;
  const Json *value = find(names, name);
  for (const char *null : isNull(names) ? names : Names())
    if (json_->contains(null))
      bad(null, "a positive integer", Json());
  return value ? asInteger(name, *value, 1, "a positive integer").value_or(fallback) : fallback;
}

int64_t Config::index(Names names, int64_t fallback) {
  std::string name;
  const Json *value = find(names, name);
  return value ? asInteger(name, *value, 0, "an integer of 0 or more").value_or(fallback)
               : fallback;
}

double Config::positiveNumber(Names names, double fallback) {
  std::string name;
  const Json *value = find(names, name);
  return value ? asPositiveNumber(name, *value).value_or(fallback) : fallback;
}

std::optional<int64_t> Config::positiveOrNull(Names names, std::optional<int64_t> absent) {
  std::string name;
  if (const Json *value = find(names, name))
    return asInteger(name, *value, 1, "a positive integer");
  return isNull(names) ? std::nullopt : absent;
}

std::optional<double> Config::positiveNumberOrNull(Names names, std::optional<double> absent) {
  std::string name;
  if (const Json *value = find(names, name))
    return asPositiveNumber(name, *value);
  return isNull(names) ? std::nullopt : absent;
}

bool Config::flag(Names names, bool fallback) {
  std::string name;
  const Json *value = find(names, name);
  if (!value)
    return fallback;
  if (value->is_boolean())
    return value->get<bool>();
  bad(name, "true or false", *value);
  return fallback;
}

std::string Config::text(Names names, const std::string &fallback) {
  std::string name;
  const Json *value = find(names, name);
  if (!value)
    return fallback;
  if (value->is_string())
    return value->get<std::string>();
  bad(name, "a string", *value);
  return fallback;
}

std::vector<std::string> Config::texts(Names names) {
  std::string name;
  const Json *value = find(names, name);
  std::vector<std::string> out;
  if (!value)
    return out;
  bool good = value->is_array();
  for (const Json &entry : good ? *value : Json::array())
    if ((good &= entry.is_string()))
      out.push_back(entry.get<std::string>());
  if (!good)
    bad(name, "a list of strings", *value);
  return out;
}

std::vector<double> Config::numbers(Names names) {
  std::string name;
  const Json *value = find(names, name);
  std::vector<double> out;
  if (!value)
    return out;
  bool good = value->is_array();
  for (const Json &entry : good ? *value : Json::array())
    if ((good &= entry.is_number() && std::isfinite(entry.get<double>())))
      out.push_back(entry.get<double>());
  if (!good)
    bad(name, "a list of numbers", *value);
  return out;
}

double Config::rate(Names names, double fallback) {
  std::string name;
  const Json *value = find(names, name);
  if (!value)
    return fallback;
  if (value->is_number() && value->get<double>() >= 0 && value->get<double>() < 1)
    return value->get<double>();
  bad(name, "a rate of at least 0 and less than 1", *value);
  return fallback;
}

std::vector<std::string> Config::positives(Names names) const {
  std::vector<std::string> out;
  for (const char *name : names)
    if (auto it = json_->find(name); it != json_->end() && it->is_number() && it->get<double>() > 0)
      out.push_back(std::string(name) + " " + it->dump());
  return out;
}

std::vector<std::string> Config::different(const std::vector<const char *> &names) const {
  std::vector<std::string> out;
  const Json *first = nullptr;
  for (const char *name : names) {
    auto it = json_->find(name);
    if (it == json_->end() || !it->is_number() || (first && *it == *first))
      continue;
    first = first ? first : &*it;
    out.push_back(quoted(name) + " " + it->dump());
  }
  return out;
}

std::optional<Config> Config::object(Names names) {
  for (const char *candidate : names) {
    std::string name;
    const Json *value = find(candidate, name);
    if (!value)
      continue;
    if (!value->is_object()) {
      bad(name, "an object", *value);
      return std::nullopt;
    }
    if (value->empty())
      continue;
    Config nested(*value);
    nested.path_ = path_ + name + ".";
    nested.problems_ = problems_;
    return nested;
  }
  return std::nullopt;
}

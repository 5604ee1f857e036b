#include "lib/huggingface/Config.h"

#include <cmath>

using namespace llmc;
using namespace llmc::hf;

const support::Json *Config::find(Names names, std::string &found) const {
  for (const char *name : names) {
    auto it = json_.find(name);
    if (it == json_.end() || it->is_null())
      continue;
    found = name;
    return &*it;
  }
  return nullptr;
}

int64_t Config::positive(Names names, int64_t fallback) {
  std::string name;
  const support::Json *value = find(names, name);
  if (!value)
    return fallback;
  bool good = value->is_number_integer() &&
              !(value->is_number_unsigned() && value->get<uint64_t>() > (uint64_t(1) << 40)) &&
              value->get<int64_t>() > 0 && value->get<int64_t>() <= int64_t(1) << 40;
  if (good)
    return value->get<int64_t>();
  note("\"" + name + "\" must be a positive integer, got " + value->dump());
  return fallback;
}

double Config::positiveNumber(Names names, double fallback) {
  std::string name;
  const support::Json *value = find(names, name);
  if (!value)
    return fallback;
  if (value->is_number() && value->get<double>() > 0 && std::isfinite(value->get<double>()))
    return value->get<double>();
  note("\"" + name + "\" must be a positive number, got " + value->dump());
  return fallback;
}

bool Config::flag(Names names, bool fallback) {
  std::string name;
  const support::Json *value = find(names, name);
  if (!value)
    return fallback;
  if (value->is_boolean())
    return value->get<bool>();
  note("\"" + name + "\" must be true or false, got " + value->dump());
  return fallback;
}

std::string Config::text(Names names, const std::string &fallback) {
  std::string name;
  const support::Json *value = find(names, name);
  if (!value)
    return fallback;
  if (value->is_string())
    return value->get<std::string>();
  note("\"" + name + "\" must be a string, got " + value->dump());
  return fallback;
}

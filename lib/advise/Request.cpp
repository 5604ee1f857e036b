#include "lib/advise/Request.h"

#include "lib/support/Json.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::advise;
using nlohmann::json;
using support::error;

namespace {

// Quotes a word for a shell, if it needs that.
std::string quoted(const std::string &word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
    return word;
  std::string out = "'";
  for (char c : word)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

} // namespace

std::string advise::requestText(const Flags &flags) {
  json list = json::array();
  for (const auto &[name, value] : flags)
    list.push_back(value.empty() ? json{name} : json{name, value});
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

support::Result<std::optional<Flags>> advise::readRequest(const planfile::Payload &payload) {
  if (!payload.has(kRequestSection))
    return std::optional<Flags>();
  std::string_view text = *payload.section(kRequestSection);
  json list = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  Flags flags;
  bool isValid = list.is_array();
  for (size_t i = 0; isValid && i < list.size(); ++i) {
    const json &one = list[i];
    isValid = one.is_array() && (one.size() == 1 || one.size() == 2) &&
              std::all_of(one.begin(), one.end(), [](const json &word) { return word.is_string(); });
    if (isValid)
      flags.emplace_back(one[0].get<std::string>(), one.size() > 1 ? one[1].get<std::string>() : "");
  }
  if (!isValid)
    return error("section '", kRequestSection, "' is no list of flags and their values; compile it again");
  return std::optional(std::move(flags));
}

const std::string *advise::valueOf(const Flags &flags, std::string_view name) {
  for (const auto &[flag, value] : flags)
    if (flag == name)
      return &value;
  return nullptr;
}

void advise::setFlag(Flags &flags, const std::string &name, const std::string &value) {
  for (auto &[flag, old] : flags)
    if (flag == name) {
      old = value;
      return;
    }
  flags.emplace_back(name, value);
}

void advise::removeFlag(Flags &flags, std::string_view name) {
  std::erase_if(flags, [&](const auto &flag) { return flag.first == name; });
}

std::string advise::flagsText(const Flags &flags) {
  std::string out;
  for (const auto &[name, value] : flags)
    out += (out.empty() ? "" : " ") + name + (value.empty() ? "" : " " + quoted(value));
  return out;
}

std::string advise::commandText(const std::string &model, const Flags &flags, const std::string &output) {
  return "llmc compile " + quoted(model) + (flags.empty() ? "" : " ") + flagsText(flags) + " -o " + quoted(output);
}

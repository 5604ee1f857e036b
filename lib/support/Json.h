// Wraps nlohmann's JSON without exceptions. Tests: test/runtime/FilesTest.cpp (Json),
// test/import/Refusals.cpp (Config), test/fuzz/Plan.cpp (a name that is not UTF-8).
#ifndef LLMC_LIB_SUPPORT_JSON_H
#define LLMC_LIB_SUPPORT_JSON_H

#include "lib/support/Error.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace llmc::support {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Describes where and at which key `text` stops being JSON: "line 3, column 9, at \"eps\": found 'NaN'".
std::string describeInvalidJson(std::string_view text);

// Parses `text`; `what` names it in the error, for example its file. An error if it is not valid
// JSON or is nested more than 1000 levels deep.
inline Result<Json> parseJson(std::string_view text, std::string_view what) {
  // Refuses what could exhaust the stack, for the parser recurses once per level.
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString && c == '\\')
      ++i;
    else if (c == '"')
      inString = !inString;
    else if (!inString)
      depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > 1000)
      return error(what, ": JSON is nested more than 1000 levels deep");
  }
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded())
    return error(what, ": not valid JSON: ", describeInvalidJson(text));
  return value;
}

// Formats JSON as text. Names come from files of any origin: what is not UTF-8 in them is
// replaced, where dump() would throw.
template <class J>
std::string jsonText(const J &json, int indent = -1) {
  return json.dump(indent, ' ', false, J::error_handler_t::replace);
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_JSON_H

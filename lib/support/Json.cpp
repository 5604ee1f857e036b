#include "lib/support/Json.h"

#include <algorithm>
#include <cctype>

using namespace llmc::support;

namespace {

// Reads JSON up to the first mistake, and remembers its place and the key before it.
struct Finder final : nlohmann::json_sax<Json> {
  size_t end = 0; // of what was read, with the mistake
  std::string last; // key before the mistake

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool start_object(size_t) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool key(string_t &name) override {
    last = name;
    return true;
  }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    end = position;
    return false;
  }
};

bool isOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '+' || c == '.'; }

} // namespace

std::string llmc::support::describeInvalidJson(std::string_view text) {
  Finder finder;
  Json::sax_parse(text, &finder);
  size_t begin = std::min(finder.end, text.size()), end = begin;
  begin -= begin > 0;
  bool isEnd = text.empty() || finder.end > text.size();
  // The parser stops within a word, such as NaN, which Python writes and JSON does not have.
  if (!isEnd && isOfWord(text[begin])) {
    while (begin > 0 && isOfWord(text[begin - 1]))
      --begin;
    while (end < text.size() && isOfWord(text[end]))
      ++end;
  }
  std::string found = isEnd ? "the end of the text" : "'" + std::string(text.substr(begin, end - begin)) + "'";
  constexpr size_t most = 40;
  auto brief = [](const std::string &s) { return s.size() > most ? s.substr(0, most) + "..." : s; };
  std::string_view before = text.substr(0, begin);
  size_t line = 1 + std::count(before.begin(), before.end(), '\n'), start = before.rfind('\n') + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(begin - start + 1) +
         (finder.last.empty() ? "" : ", at \"" + brief(finder.last) + "\"") + ": found " + brief(found);
}

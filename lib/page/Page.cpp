#include "lib/page/Page.h"

#include <string_view>
#include <utility>

using namespace llmc;

namespace {

#include "lib/page/Assets.inc"

constexpr std::string_view kOpen = "<!-- asset ", kClose = " -->";
constexpr std::string_view kDocument = "document";

std::string_view assetNamed(std::string_view name) {
  for (auto [file, text] : kAssets)
    if (file == name)
      return text;
  return "";
}

} // namespace

std::string page::inlineJson(const std::string &text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string_view rest = std::string_view(text).substr(i, 3);
    if (text[i] == '<')
      out += "\\u003c";
    else if (text[i] == '>')
      out += "\\u003e";
    else if (text[i] == '&')
      out += "\\u0026";
    else if (rest == "\xe2\x80\xa8" || rest == "\xe2\x80\xa9") { // line and paragraph separators
      out += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else
      out += text[i];
  }
  return out;
}

// Replaces each `<!-- asset NAME -->` of the template, once: what is put in place is not searched again.
std::string page::pageOf(const support::OrderedJson &document) {
  std::string_view left = assetNamed("page.html");
  std::string out;
  for (size_t at; (at = left.find(kOpen)) != std::string_view::npos;) {
    out += left.substr(0, at);
    left.remove_prefix(at + kOpen.size());
    size_t end = left.find(kClose);
    std::string_view name = left.substr(0, end);
    out += name == kDocument ? inlineJson(support::jsonText(document)) : std::string(assetNamed(name));
    left.remove_prefix(end + kClose.size());
  }
  return out + std::string(left);
}

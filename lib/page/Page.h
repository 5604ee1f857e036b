// Makes one HTML page of a document, which needs nothing else: no file, no network. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_PAGE_H
#define LLMC_LIB_PAGE_PAGE_H

#include "lib/support/Json.h"

#include <string>

namespace llmc::page {

// Returns the page of a document of Document.h: lib/page/assets/page.html with its styles, its scripts and the document
// inside. Whatever the names in the document hold, they stay text.
std::string pageOf(const support::OrderedJson &document);

// Returns JSON that a script element can hold: equal to `text` for a parser of JSON, and without any character that ends
// the element, begins a comment or ends a line of a script.
std::string inlineJson(const std::string &text);

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_PAGE_H

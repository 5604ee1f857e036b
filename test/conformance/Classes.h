// Classifies ops by their importance for transformers: those that every file needs, those that
// some need, and the rest.
#ifndef LLMC_TEST_CONFORMANCE_CLASSES_H
#define LLMC_TEST_CONFORMANCE_CLASSES_H

#include <set>
#include <string>

namespace llmc::test {

enum class Class { Must, Should, Other };

// Returns the class of a case by all the ops in it; Other if it has none.
Class classOf(const std::set<std::string> &ops);

} // namespace llmc::test

#endif // LLMC_TEST_CONFORMANCE_CLASSES_H

// Changes where states get their values.
#ifndef LLMC_TEST_VERIFY_CATALOGUE_STATEEDITS_H
#define LLMC_TEST_VERIFY_CATALOGUE_STATEEDITS_H

#include "test/verify/catalogue/Edits.h"

namespace llmc::catalogue {

// Exchanges the file offsets of two sources.
Edit exchangePlaces(std::string one, std::string other);
// Moves the file offset of a source by `bytes`.
Edit movePlace(std::string source, int64_t bytes);
// Exchanges two sources in all views.
Edit exchangeSources(std::string one, std::string other);
// Exchanges two offsets (in elements) in all views of a source.
Edit exchangeParts(std::string source, int64_t one, int64_t other);
// Transposes all views of a square source.
Edit turnOver(std::string source);
// Sets an attribute of a source: how it is drawn.
Edit setOfSource(std::string source, std::string name, std::string value);

} // namespace llmc::catalogue

#endif // LLMC_TEST_VERIFY_CATALOGUE_STATEEDITS_H

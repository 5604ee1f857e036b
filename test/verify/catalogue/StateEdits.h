// Edits of where states come from.
#ifndef LLMC_TEST_VERIFY_CATALOGUE_STATEEDITS_H
#define LLMC_TEST_VERIFY_CATALOGUE_STATEEDITS_H

#include "test/verify/catalogue/Edits.h"

namespace llmc::catalogue {

// Two sources change the places in their file.
Edit exchangePlaces(std::string one, std::string other);
// A source's bytes begin so many bytes later.
Edit movePlace(std::string source, int64_t bytes);
// States that view one source view the other, and back.
Edit exchangeSources(std::string one, std::string other);
// Views of a source from one element on begin at another, and back.
Edit exchangeParts(std::string source, int64_t one, int64_t other);
// A square source is read the other way round.
Edit turnOver(std::string source);
// An attribute of a source: how it is drawn.
Edit setOfSource(std::string source, std::string name, std::string value);

} // namespace llmc::catalogue

#endif // LLMC_TEST_VERIFY_CATALOGUE_STATEEDITS_H

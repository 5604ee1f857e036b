// Memory of mapped files.
#ifndef LLMC_LIB_SUPPORT_PAGES_H
#define LLMC_LIB_SUPPORT_PAGES_H

#include <cstddef>

namespace llmc::support {

// Lets go of what has been read of a mapped file: the next read fetches it again.
// Only whole pages inside the range.
void releasePages(const void *data, size_t size);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_PAGES_H

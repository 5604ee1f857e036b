// Releases the memory of mapped files. Tests: test/import/Storage.cpp (Large).
#ifndef LLMC_LIB_SUPPORT_PAGES_H
#define LLMC_LIB_SUPPORT_PAGES_H

#include <cstddef>

namespace llmc::support {

// Releases the whole pages inside the range of a mapped file; the next read loads them again.
void releasePages(const void *data, size_t size);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_PAGES_H

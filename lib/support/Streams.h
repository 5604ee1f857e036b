// Prepares the standard streams of a process. Tests: test/numerics/failures.py (standard_streams).
#ifndef LLMC_LIB_SUPPORT_STREAMS_H
#define LLMC_LIB_SUPPORT_STREAMS_H

#include <fcntl.h>

namespace llmc::support {

// Opens /dev/null in place of standard streams that are closed, so that no file that is opened
// later takes their descriptors. Call it before anything else is opened.
inline void openStandardStreams() {
  for (int fd : {0, 1, 2})
    if (::fcntl(fd, F_GETFD) < 0)
      ::open("/dev/null", O_RDWR); // takes the lowest number that is free
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_STREAMS_H

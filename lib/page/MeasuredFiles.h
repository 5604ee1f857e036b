// Names the files of a run that a page shows beside its forecast. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_MEASUREDFILES_H
#define LLMC_LIB_PAGE_MEASUREDFILES_H

#include <string>

namespace llmc::page {

// Holds paths; an empty one is not given.
struct MeasuredFiles {
  std::string trace, metrics;
};

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_MEASUREDFILES_H

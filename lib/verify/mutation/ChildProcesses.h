// Work that may crash or hang, in child processes that share it.
#ifndef LLMC_LIB_VERIFY_MUTATION_CHILDPROCESSES_H
#define LLMC_LIB_VERIFY_MUTATION_CHILDPROCESSES_H

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace llmc::verify {

// Calls work(i) for each i < count in one of `processes` children and returns what it said, at
// most 500 bytes; "crash" or "hang" where it did not come back within `seconds`. `ended` is
// called with how many are done, now and then. Empty if there is no memory to share. The
// calling process must have one thread.
std::vector<std::string> inChildren(size_t count, unsigned processes, unsigned seconds,
                                    const std::function<std::string(size_t)> &work,
                                    const std::function<void(size_t)> &ended);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_CHILDPROCESSES_H

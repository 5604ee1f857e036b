// Runs work that may crash or hang in child processes that share it. Tested by
// test/numerics/ir_mutation.py and catalogue.py.
#ifndef LLMC_LIB_VERIFY_MUTATION_CHILDPROCESSES_H
#define LLMC_LIB_VERIFY_MUTATION_CHILDPROCESSES_H

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace llmc::verify {

// Calls work(i) for each i < count in one of `processes` children and returns its results, each
// cut to 500 bytes; "crash" or "hang" if work(i) did not return within `seconds`. Calls `ended`
// every few milliseconds with the number of items done. Returns an empty list if no shared memory
// can be had, or no child to do the rest. The calling process must have one thread.
std::vector<std::string> runInChildProcesses(size_t count, unsigned processes, unsigned seconds,
                                             const std::function<std::string(size_t)> &work,
                                             const std::function<void(size_t)> &ended);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_CHILDPROCESSES_H

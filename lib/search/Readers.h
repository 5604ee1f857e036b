// Reads models on all cores: each thread has an MLIR context of its own. Tests: test/search, test/numerics/search.py.
#ifndef LLMC_LIB_SEARCH_READERS_H
#define LLMC_LIB_SEARCH_READERS_H

#include "lib/predict/Tables.h"
#include "lib/search/Space.h"
#include "llvm/Support/ThreadPool.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llmc::search {

// Calls `read` with all that it says of errors kept from the terminal, and returns the first of these; empty if there is none.
std::string firstError(mlir::MLIRContext &context, llvm::function_ref<void()> read);

class Readers {
public:
  // Takes `models` and, for other cores, makes models of one context more for each.
  explicit Readers(predict::RaisedModels &models);
  ~Readers();

  // Calls work(models, i) for each i below `count`, on all cores, and waits for them.
  void run(size_t count, const std::function<void(predict::RaisedModels &, size_t)> &work);
  size_t threads() const { return all_.size(); }

private:
  struct Other;
  std::vector<std::unique_ptr<Other>> others_;
  std::vector<predict::RaisedModels *> all_; // one for each thread
  llvm::DefaultThreadPool pool_;
};

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_READERS_H

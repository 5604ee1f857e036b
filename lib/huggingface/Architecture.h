// One file per architecture builds @forward from the fields of its config.
#ifndef LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H
#define LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H

#include "lib/huggingface/Config.h"
#include "lib/huggingface/ModelBuilder.h"
#include "lib/pipeline/Options.h"

namespace llmc::hf {

struct BuiltModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t sequence = 0, vocabulary = 0, context = 0;
  // Checkpoints may lack these at the front of their tensors' names.
  std::vector<std::string> prefixes;
};

struct Architecture {
  const char *modelType; // of config.json
  // Fields that are wrong are noted in `config`; then the result does not count.
  BuiltModel (*build)(mlir::MLIRContext &, Config &config, const CompileOptions &);
};

BuiltModel buildGpt2(mlir::MLIRContext &context, Config &config, const CompileOptions &options);

// The tokens of a row: those asked for, else `context`, at most 4096. Notes a
// sequence longer than the position table (`context` rows, 0: none).
int64_t chooseSequence(Config &config, const CompileOptions &options, int64_t context);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H

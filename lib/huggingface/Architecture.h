// One file of architectures/ describes one architecture: NAME.cpp defines
// `Architecture hf::architectures::NAME()`, and the build lists it by itself.
#ifndef LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H
#define LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H

#include "lib/huggingface/Config.h"
#include "lib/huggingface/ModelBuilder.h"
#include "lib/huggingface/Weights.h"
#include "lib/pipeline/Options.h"

namespace llmc::hf {

struct BuiltModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  // context: rows of the table of positions, 0 without one.
  int64_t sequence = 0, vocabulary = 0, context = 0;
  // How checkpoints may have the names of their tensors instead.
  std::vector<Spelling> spellings;
};

struct Architecture {
  std::vector<std::string> modelTypes; // of config.json
  // Classes of transformers whose checkpoints hold what is built; the first is the
  // one that is. A config that names only others is refused.
  std::vector<std::string> classes;
  // Fields that are wrong are noted in `config`; then the result does not count.
  BuiltModel (*build)(mlir::MLIRContext &, Config &config, const CompileOptions &);
};

namespace architectures {
#define LLMC_ARCHITECTURE(NAME) Architecture NAME();
#include "lib/huggingface/Architectures.inc"
#undef LLMC_ARCHITECTURE
} // namespace architectures

// Those of all files, in order of the alphabet.
std::vector<Architecture> allArchitectures();

// The tokens of a row: those asked for, else `context`, at most 4096. Notes a
// sequence longer than a table of positions, if there is one.
int64_t chooseSequence(Config &config, const CompileOptions &options, int64_t context,
                       bool table);

// Each layer is built before equal ones are folded; notes more than can be.
int64_t countLayers(Config &config, Config::Names names, int64_t fallback);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H

// Declares what a file of architectures/ defines: NAME.cpp defines
// `Architecture hf::architectures::NAME()`, and the build adds it to the list by itself.
// Tested by test/import/Architectures.cpp.
#ifndef LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H
#define LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H

#include "lib/huggingface/Config.h"
#include "lib/huggingface/ModelBuilder.h"
#include "lib/weights/Weights.h"
#include "lib/options/Options.h"

namespace llmc::hf {

// Holds what a `build` function returns; `module` is null if the config has problems.
struct BuiltModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  // Counts tokens per row, tokens of the vocabulary, and rows of the position table (0: none).
  int64_t sequence = 0, vocabulary = 0, context = 0;
  std::vector<weights::Spelling> spellings; // other names that checkpoints may give to tensors
  std::vector<weights::Stack> stacks;       // tensors that checkpoints may have in place of several
  std::optional<int64_t> activeParameters;  // that one token uses, if not all
  std::vector<int64_t> layerKinds; // of each layer of the config; of each kind one is built. Empty: all are built
};

// Describes an architecture: which configs it accepts and how its module is built.
struct Architecture {
  std::vector<std::string> modelTypes; // values of `model_type` in config.json
  // Lists the classes of transformers whose checkpoints hold the tensors of the built model;
  // the first is the class that is built. A config that names only others is refused.
  std::vector<std::string> classes;
  // Builds the model. Notes wrong fields in `config`; the caller then discards the result.
  BuiltModel (*build)(mlir::MLIRContext &, Config &config, const CompileOptions &);
};

namespace architectures {
#define LLMC_ARCHITECTURE(NAME) Architecture NAME();
#include "lib/huggingface/Architectures.inc"
#undef LLMC_ARCHITECTURE
} // namespace architectures

// Returns the architectures of all files, in alphabetical order of the file names.
std::vector<Architecture> allArchitectures();

// Returns the tokens per row, at least 1: --seq if given, else `context` but at most 4096.
// Notes in `config` a negative --seq and, with `table` (positions come from a table of `context`
// rows), a sequence that is longer.
int64_t chooseSequence(Config &config, const CompileOptions &options, int64_t context,
                       bool table);

// Reads the number of layers, and notes and returns 1000 if there are more: each layer is
// built on its own before the raise phase folds equal ones.
int64_t countLayers(Config &config, Config::Names names, int64_t fallback);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_ARCHITECTURE_H

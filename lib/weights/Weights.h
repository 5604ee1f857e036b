// Sets the attributes that both importers put on a module: facts about the model, and the
// files and offsets of its weights. Tested by test/import/Checkpoints.cpp.
#ifndef LLMC_LIB_WEIGHTS_WEIGHTS_H
#define LLMC_LIB_WEIGHTS_WEIGHTS_H

#include "dialects/graph/Graph.h"
#include "lib/support/Checkpoint.h"
#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace llmc::weights {

// Holds the values of graph.model and graph.batch (docs/0-import.md).
struct ModelFacts {
  std::string name, sourcePath, configJson;
  int64_t sequence = 0, vocabulary = 0, context = 0, batch = 0;
  std::optional<int64_t> activeParameters = std::nullopt; // that one token uses, if not all
  std::vector<int64_t> layerKinds = {}; // of each layer, of which the module has one of each kind; empty: it has all
};

// Sets graph.model, graph.batch and graph.files, and graph.constants to [] if it is unset. In
// graph.model, `weights` is "file" if there are files, else "none".
void describeModule(mlir::ModuleOp module, const ModelFacts &facts,
                    llvm::ArrayRef<mlir::Attribute> files);

// Returns an entry of graph.files: absolute path, size in bytes and hash of the whole file,
// which is read for it. `progress` may be null. Fails if the file cannot be read.
support::Result<mlir::Attribute> fileEntry(mlir::Builder &builder, const std::string &path,
                                           support::Progress *progress);

// Returns the file's name without extension, or its folder's name for the file names that all
// models share (model.onnx, config.json).
std::string modelName(const std::string &path);

// Describes an alternative spelling: a tensor whose name contains `part` may be stored with
// `instead` in its place.
struct Spelling {
  std::string part, instead;
};

// Sets `older_names` on every graph.source: its name and aliases in all other spellings.
void addSpellings(mlir::ModuleOp module, llvm::ArrayRef<Spelling> spellings);

// Describes a tensor that a checkpoint may have in place of several: they are its parts, whole and one
// behind the other.
struct Stack {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::string> parts;
};

// Lets states view `stacks` in place of their parts, where the checkpoint at `path` has the stack and
// does not have the first part.
support::Status useStacks(mlir::ModuleOp module, const std::string &path, llvm::ArrayRef<Stack> stacks);

// Finds every graph.source of the module in a checkpoint, under its name, an alias or an older
// name, and records file, offset, element type and scales (docs/0-import.md);
// replaces graph.files. `quantization` is what the model's config says. All tensors that are
// missing or do not fit are one error; those that nothing reads are a remark.
support::Status bindWeights(mlir::ModuleOp module, const std::string &path,
                            support::Progress *progress,
                            std::optional<support::Quantization> quantization = std::nullopt);

// Returns how a source is stored, "BF16" or "F8_E4M3, F32 scales of 128x128"; "" without a file.
std::string storedText(graph::SourceOp source);

} // namespace llmc::weights

#endif // LLMC_LIB_WEIGHTS_WEIGHTS_H

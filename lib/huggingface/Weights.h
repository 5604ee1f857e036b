// What both readers put on a module: facts about the model, and the places of
// weights in safetensors files.
#ifndef LLMC_LIB_HUGGINGFACE_WEIGHTS_H
#define LLMC_LIB_HUGGINGFACE_WEIGHTS_H

#include "dialects/graph/Graph.h"
#include "lib/support/Checkpoint.h"
#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace llmc::hf {

struct ModelFacts {
  std::string name, sourcePath, configJson;
  int64_t sequence = 0, vocabulary = 0, context = 0, batch = 0;
};

// Sets graph.model, graph.batch and graph.files ("weights" is "file" if there
// are files). graph.constants is set to [] if it is not there.
void describeModule(mlir::ModuleOp module, const ModelFacts &facts,
                    llvm::ArrayRef<mlir::Attribute> files);

// One entry of graph.files: absolute path, size and hash of the whole file.
// `progress` may be null.
support::Result<mlir::Attribute> fileEntry(mlir::Builder &builder, const std::string &path,
                                           support::Progress *progress);

// The file's name without extension, or its folder's where it is always called
// the same (model.onnx, config.json).
std::string modelName(const std::string &path);

// A tensor whose name has `part` may be stored with `instead` in its place.
struct Spelling {
  std::string part, instead;
};

// Gives every graph.source its `older_names`: its names and aliases in all other spellings.
void addSpellings(mlir::ModuleOp module, llvm::ArrayRef<Spelling> spellings);

// Finds every graph.source of the module in a checkpoint, under its name, an alias or an older
// name, and records file, offset, element type and scales (lib/pipeline/Borders.md);
// replaces graph.files. `quantization` is what the model's config says. All tensors that are
// missing or do not fit are one error; those that nothing reads are a remark.
support::Status bindWeights(mlir::ModuleOp module, const std::string &path,
                            support::Progress *progress,
                            std::optional<support::Quantization> quantization = std::nullopt);

// "BF16", "F8_E4M3, F32 scales of 128x128": how its file has a source; "" if it has none.
std::string storedText(graph::SourceOp source);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_WEIGHTS_H

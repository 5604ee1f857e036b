// Computes what a rank has in values that follow from its place along cp alone, such as the positions
// of its tokens. Tests: test/passes/4-partition/count-attention.mlir, localize-ring-window.mlir.
#ifndef LLMC_PASSES_PARTITION_PLACEVALUES_H
#define LLMC_PASSES_PARTITION_PLACEVALUES_H

#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/Annotations.h"
#include <memory>

namespace llmc {

class PlaceValues {
public:
  explicit PlaceValues(parallel::MeshAttr mesh)
      : mesh(mesh), ranks(mesh.getSize(planfile::AxisRole::Context)) {}

  // Returns the value of the rank at `coordinate` along cp (0 along other axes); null if it depends on
  // an argument.
  const graph::Tensor *of(mlir::Value value, int64_t coordinate);

private:
  std::shared_ptr<graph::Tensor> compute(mlir::Value value, int64_t coordinate);
  bool isContext(mlir::ArrayAttr axes) const;

  parallel::MeshAttr mesh;
  int64_t ranks;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, std::shared_ptr<graph::Tensor>> known;
};

// Returns how many pairs see each other of rows and keys at the given positions [n]: a row sees keys
// from `window` - 1 before it, if there is a window, up to itself, all moved by `offset`. With `any`
// returns 1 at the first pair.
double countVisible(const graph::Tensor &rows, const graph::Tensor &keys, int64_t offset,
                    std::optional<int64_t> window, bool any = false);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_PLACEVALUES_H

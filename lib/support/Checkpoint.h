// Locates tensors in a checkpoint as Hugging Face writes them: safetensors files and a
// config.json that tells whether weights are quantized. Tests: test/runtime/DequantizerTest.cpp,
// test/import/Checkpoints.cpp. Values may be stored
//   NAME                                 as numbers
//   NAME, NAME_scale_inv or NAME_scale   as 8-bit floats, each times the scale of its block of
//                                        rows and columns ("fp8")
//   NAME_blocks, NAME_scales             as 4-bit floats, two a byte, 32 of a row to a scale that
//                                        is a power of two ("mxfp4")
#ifndef LLMC_LIB_SUPPORT_CHECKPOINT_H
#define LLMC_LIB_SUPPORT_CHECKPOINT_H

#include "lib/support/ElementType.h"
#include "lib/support/Error.h"
#include "lib/support/Json.h"
#include "lib/support/Safetensors.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace llmc::support {

// Holds the "quantization_config" of a config.json.
struct Quantization {
  std::string method;               // "fp8", "mxfp4", ...; "unnamed method"
  std::optional<std::vector<int64_t>> block; // rows and columns that share a scale, if given

  // Reads it; nullopt: plain numbers. An error for a malformed weight_block_size.
  static Result<std::optional<Quantization>> of(const Json &config);
  bool isRead() const { return method == "fp8" || method == "mxfp4"; }
};

// Locates a tensor's row-major scales. Blocks are of the last two dims, smaller at an edge.
struct ScaleLocation {
  size_t file = 0;     // index into the set's files
  uint64_t offset = 0; // in the file
  ElementType type = ElementType::F32; // or BF16, F16, F8E8M0
  int64_t rows = 1, columns = 1;       // of a block
};

// Locates the values of a tensor.
struct TensorLocation {
  std::string name; // of the tensor with the values
  size_t file = 0;
  uint64_t offset = 0;
  ElementType type = ElementType::F32;
  bool transposed = false; // two dims: they are those of the transpose
  std::optional<ScaleLocation> scales;
};

// Lists all names that a tensor may have; under `transposed` ones it is stored as its transpose.
struct TensorNames {
  std::vector<std::string> plain, transposed;
};

// Formats how values are stored: "BF16"; "F8_E4M3, F32 scales of 128x128".
std::string storedText(ElementType type, const std::optional<ScaleLocation> &scales);

// Returns the number of blocks that cover `size`, without overflow.
constexpr int64_t blocksOf(int64_t size, int64_t block) {
  return size == 0 ? 0 : (size - 1) / block + 1;
}

// Counts the scales of a tensor of `shape`; nullopt if there are more than 2^62.
std::optional<uint64_t> scaleCount(const std::vector<int64_t> &shape, int64_t rows,
                                   int64_t columns);

// Owns the mapped files of a checkpoint, and tracks which tensors were read.
class Checkpoint {
public:
  // Opens the files at `path` (see SafetensorsSet) and reads the config.json beside them, in
  // whose absence `otherwise` holds. An error if their quantization is none that is read.
  static Result<Checkpoint> open(const std::string &path,
                                 std::optional<Quantization> otherwise = std::nullopt);

  // Locates the tensor under the first of its names that is there, and marks all that are there
  // as read; nullopt if none is. An error for another shape, an element type that is no weight,
  // or scales that are missing or malformed.
  Result<std::optional<TensorLocation>> find(const TensorNames &names,
                                          const std::vector<int64_t> &shape);

  // Returns in one line what a user should know: 8-bit floats without scales, and the tensors
  // that find() has not read, neither as values nor as scales. "" if there are none.
  std::string notes() const;

  const SafetensorsSet &set() const { return set_; }

private:
  explicit Checkpoint(SafetensorsSet set) : set_(std::move(set)) {}
  Status readConfig(const std::string &path, std::optional<Quantization> otherwise);
  struct Stored {
    std::string name;
    const TensorView *tensor = nullptr; // null: there is none
    bool transposed = false;
    std::vector<int64_t> shape; // that it should have
  };
  // Returns the first of the names, with `suffix`, that is there; all that are there count as
  // read.
  Stored take(const TensorNames &names, const char *suffix, const std::vector<int64_t> &shape);
  const TensorView *take(const std::string &name);
  TensorLocation placeOf(const Stored &stored, ElementType type) const;
  ScaleLocation scalesAt(const std::string &name, ElementType type, int64_t rows,
                      int64_t columns) const;
  Status findScales(TensorLocation &place, const std::vector<int64_t> &shape);
  Result<std::optional<TensorLocation>> numbers(const Stored &stored);
  Result<std::optional<TensorLocation>> microscaled(const Stored &stored);

  SafetensorsSet set_;
  std::optional<Quantization> quantization_;
  bool hasScales_ = false; // of a tensor of 8-bit floats
  std::set<std::string, std::less<>> read_, unscaled_;
};

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_CHECKPOINT_H

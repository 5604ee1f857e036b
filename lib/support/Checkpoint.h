// A checkpoint as Hugging Face writes them: safetensors files and a config.json that says
// whether weights are quantised. Values may be stored
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

// What a config.json says of quantised weights.
struct Quantization {
  std::string method;               // "fp8"
  std::optional<std::vector<int64_t>> block; // rows and columns that share a scale, if it says so

  // nullopt: weights are plain numbers.
  static Result<std::optional<Quantization>> of(const Json &config);
  bool isRead() const { return method == "fp8" || method == "mxfp4"; }
};

// Blocks are of the last two dims; those at an edge are smaller. The scales of all are row-major.
struct ScalePlace {
  size_t file = 0;     // index into the set's files
  uint64_t offset = 0; // in the file
  ElementType type = ElementType::F32; // or BF16, F16, F8E8M0
  int64_t rows = 1, columns = 1;       // of a block
};

// Where the values of a tensor lie.
struct TensorPlace {
  std::string name; // of the tensor with the values
  size_t file = 0;
  uint64_t offset = 0;
  ElementType type = ElementType::F32;
  bool transposed = false; // two dims: they are those of the transpose
  std::optional<ScalePlace> scales;
};

// A tensor under any of its names; under `transposed` ones it is stored as its transpose.
struct TensorNames {
  std::vector<std::string> plain, transposed;
};

// "BF16"; "F8_E4M3, F32 scales of 128x128".
std::string storedText(ElementType type, const std::optional<ScalePlace> &scales);

// Blocks that cover `size`, also where their sum would overflow.
constexpr int64_t blocksOf(int64_t size, int64_t block) {
  return size == 0 ? 0 : (size - 1) / block + 1;
}

// Scales of a tensor of `shape` in all; nullopt: not so many that they can be counted.
std::optional<uint64_t> scaleCount(const std::vector<int64_t> &shape, int64_t rows,
                                   int64_t columns);

class Checkpoint {
public:
  // `otherwise` is what holds where no config.json lies beside the files. An error where
  // they are quantised in a way that is not read.
  static Result<Checkpoint> open(const std::string &path,
                                 std::optional<Quantization> otherwise = std::nullopt);

  // The tensor of that shape; nullopt if there is none of the names. An error if it holds
  // something else.
  Result<std::optional<TensorPlace>> find(const TensorNames &names,
                                          const std::vector<int64_t> &shape);

  // What a reader should know, in one line: 8-bit floats that were found without scales, and the
  // tensors that no name and no scale of what was looked for is. "" if there are none.
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
  // The first of the names, with `suffix`, that is there; all that are count as read.
  Stored take(const TensorNames &names, const char *suffix, const std::vector<int64_t> &shape);
  const TensorView *take(const std::string &name);
  TensorPlace placeOf(const Stored &stored, ElementType type) const;
  ScalePlace scalesAt(const std::string &name, ElementType type, int64_t rows,
                      int64_t columns) const;
  Status findScales(TensorPlace &place, const std::vector<int64_t> &shape);
  Result<std::optional<TensorPlace>> numbers(const Stored &stored);
  Result<std::optional<TensorPlace>> microscaled(const Stored &stored);

  SafetensorsSet set_;
  std::optional<Quantization> quantization_;
  bool hasScales_ = false; // of a tensor of 8-bit floats
  std::set<std::string, std::less<>> read_, unscaled_;
};

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_CHECKPOINT_H

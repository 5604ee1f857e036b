#include "lib/support/Checkpoint.h"

#include <algorithm>
#include <bit>
#include <filesystem>

using namespace llmc::support;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMicroscaled = 32; // values of a row that share a scale

bool isFloat8(ElementType type) {
  return type == ElementType::F8E4M3 || type == ElementType::F8E5M2;
}

// Returns the one block size that cuts `size` into `count` blocks: equal parts as transformers
// takes them, or a power of two whose last block is smaller; 0 if these differ or neither fits.
int64_t blockSize(int64_t size, int64_t count) {
  if (count == 1)
    return std::max<int64_t>(size, 1);
  if (size < 1 || count < 1 || count > size)
    return 0;
  int64_t equal = size % count == 0 ? size / count : 0;
  auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(blocksOf(size, count))));
  if (blocksOf(size, power) != count)
    power = 0;
  return equal == 0 || power == 0 || equal == power ? std::max(equal, power) : 0;
}

std::vector<int64_t> without(std::vector<int64_t> shape, size_t dims) {
  shape.resize(shape.size() - std::min(dims, shape.size()));
  return shape;
}

// Returns the block (rows, columns) on which the scales' shape and the config, if there is one,
// agree; nullopt if they do not or the shape is ambiguous.
std::optional<std::pair<int64_t, int64_t>>
blockOf(const std::vector<int64_t> &shape, const std::vector<int64_t> &scales,
        const std::optional<Quantization> &quantization) {
  int64_t columns = shape.empty() ? 1 : shape.back();
  int64_t rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  if (shape.size() <= 2 && elementCount(scales) == 1u && scales.size() <= 2)
    return std::pair(std::max<int64_t>(rows, 1), std::max<int64_t>(columns, 1));
  if (scales.size() != shape.size() || shape.size() < 2 || without(scales, 2) != without(shape, 2))
    return std::nullopt;
  int64_t down = scales[scales.size() - 2], across = scales.back();
  if (quantization && quantization->block) {
    int64_t high = (*quantization->block)[0], wide = (*quantization->block)[1];
    if (blocksOf(rows, high) == down && blocksOf(columns, wide) == across)
      return std::pair(high, wide);
    if (down != rows || across != 1) // one scale a row
      return std::nullopt;
  }
  int64_t high = blockSize(rows, down), wide = blockSize(columns, across);
  return high && wide ? std::optional(std::pair(high, wide)) : std::nullopt;
}

} // namespace

Result<std::optional<Quantization>> Quantization::of(const Json &config) {
  auto it = config.is_object() ? config.find("quantization_config") : config.end();
  if (it == config.end() || it->is_null())
    return std::optional<Quantization>();
  Quantization result{"unnamed method", std::nullopt};
  if (auto method = it->find("quant_method");
      it->is_object() && method != it->end() && method->is_string())
    result.method = method->get<std::string>();
  if (result.method != "fp8")
    return std::optional(std::move(result));
  auto block = it->find("weight_block_size");
  if (block == it->end()) // what transformers takes then
    result.block = {128, 128};
  else if (!block->is_null()) {
    result.block.emplace();
    for (const Json &size : *block)
      if (block->is_array() && size.is_number_integer() && size > 0)
        result.block->push_back(size.get<int64_t>());
    if (!block->is_array() || block->size() != 2 || result.block->size() != 2)
      return error("\"quantization_config.weight_block_size\" must be two whole numbers above 0, "
                   "got ",
                   jsonText(*block));
  }
  return std::optional(std::move(result));
}

std::string llmc::support::storedText(ElementType type,
                                      const std::optional<ScaleLocation> &scales) {
  std::string out(toString(type));
  if (scales)
    out += text(", ", toString(scales->type), " scales of ", scales->rows, "x", scales->columns);
  return out;
}

std::optional<uint64_t> llmc::support::scaleCount(const std::vector<int64_t> &shape, int64_t rows,
                                                  int64_t columns) {
  std::vector<int64_t> counts = shape;
  for (size_t d : {1, 2})
    if (d <= shape.size())
      counts[shape.size() - d] = blocksOf(shape[shape.size() - d], d == 1 ? columns : rows);
  return elementCount(counts);
}

Result<Checkpoint> Checkpoint::open(const std::string &path,
                                    std::optional<Quantization> otherwise) {
  Result<SafetensorsSet> set = SafetensorsSet::open(path);
  if (!set)
    return set.takeError();
  Checkpoint result(std::move(*set));
  if (Status s = result.readConfig(path, std::move(otherwise)); !s)
    return s.takeError();
  for (const std::string &name : result.set_.names())
    result.hasScales_ |=
        isFloat8(result.set_.find(name)->type) &&
        (result.set_.find(name + "_scale_inv") || result.set_.find(name + "_scale"));
  return result;
}

Status Checkpoint::readConfig(const std::string &path, std::optional<Quantization> otherwise) {
  std::error_code code;
  fs::path folder = fs::is_directory(path, code) ? fs::path(path) : fs::path(path).parent_path();
  std::string file = (folder / "config.json").string();
  quantization_ = std::move(otherwise);
  if (fs::exists(file, code)) {
    Result<std::string> content = readFile(file);
    if (!content)
      return content.takeError();
    Result<Json> json = parseJson(*content, "'" + file + "'");
    if (!json)
      return json.takeError();
    Result<std::optional<Quantization>> said = Quantization::of(*json);
    if (!said)
      return error("'", file, "': ", said.message());
    quantization_ = std::move(*said);
  }
  if (quantization_ && !quantization_->isRead())
    return error("\"quantization_config\": weights quantized by ", quantization_->method,
                 " are not read, those by fp8 and mxfp4 are: use a checkpoint of F32, F16, BF16 or "
                 "F64, or --weights random");
  return ok();
}

const TensorView *Checkpoint::take(const std::string &name) {
  const TensorView *tensor = set_.find(name);
  if (tensor)
    read_.insert(name);
  return tensor;
}

Checkpoint::Stored Checkpoint::take(const TensorNames &names, const char *suffix,
                                    const std::vector<int64_t> &shape) {
  Stored result{"", nullptr, false, shape};
  for (bool transposed : {false, true})
    for (const std::string &name : transposed ? names.transposed : names.plain)
      if (const TensorView *tensor = take(name + suffix); tensor && !result.tensor)
        result = {name + suffix, tensor, transposed && shape.size() == 2, shape};
  if (result.transposed)
    std::swap(result.shape[0], result.shape[1]);
  return result;
}

TensorLocation Checkpoint::placeOf(const Stored &stored, ElementType type) const {
  auto file = static_cast<size_t>(set_.fileOf(stored.name) - set_.files().data());
  return {stored.name, file, stored.tensor->fileOffset, type, stored.transposed, {}};
}

ScaleLocation Checkpoint::scalesAt(const std::string &name, ElementType type, int64_t rows,
                                int64_t columns) const {
  auto file = static_cast<size_t>(set_.fileOf(name) - set_.files().data());
  return {file, set_.find(name)->fileOffset, type, rows, columns};
}

Result<std::optional<TensorLocation>> Checkpoint::find(const TensorNames &names,
                                                    const std::vector<int64_t> &shape) {
  if (Stored stored = take(names, "", shape); stored.tensor)
    return numbers(stored);
  if (Stored stored = take(names, "_blocks", shape); stored.tensor)
    return microscaled(stored);
  return std::optional<TensorLocation>();
}

Result<std::optional<TensorLocation>> Checkpoint::numbers(const Stored &stored) {
  ElementType type = stored.tensor->type;
  if (stored.tensor->shape != stored.shape)
    return error("'", stored.name, "' has the shape ", shapeText(stored.tensor->shape),
                 ", the model needs ", shapeText(stored.shape));
  if (isInteger(type) || type == ElementType::F8E8M0 || type == ElementType::F4E2M1)
    return error("'", stored.name, "' holds ", toString(type),
                 ", expected F32, F16, BF16, F64, F8_E4M3 or F8_E5M2");
  TensorLocation place = placeOf(stored, type);
  if (Status s = findScales(place, stored.shape); !s)
    return s.takeError();
  return std::optional(std::move(place));
}

Status Checkpoint::findScales(TensorLocation &place, const std::vector<int64_t> &shape) {
  // Accepts NAME_scale beside a plain tensor, for a parameter may be called that.
  if (!isFloat8(place.type)) {
    if (set_.find(place.name + "_scale_inv"))
      return error("'", place.name, "' holds ", toString(place.type), ", but has scales, '",
                   place.name, "_scale_inv', as F8_E4M3 and F8_E5M2 have");
    return ok();
  }
  std::string name = place.name + "_scale_inv";
  if (!set_.find(name))
    name = place.name + "_scale";
  const TensorView *scales = take(name);
  if (!scales) {
    // Casts numbers without scales, as transformers does.
    if (!hasScales_ && !quantization_) {
      unscaled_.insert(place.name);
      return ok();
    }
    return error("'", place.name, "' holds ", toString(place.type), ", but its scales, '",
                 place.name, "_scale_inv', are missing");
  }
  if (scales->type != ElementType::F32 && scales->type != ElementType::BF16 &&
      scales->type != ElementType::F16 && scales->type != ElementType::F8E8M0)
    return error("'", name, "' holds ", toString(scales->type),
                 ", scales are F32, BF16, F16 or F8_E8M0");
  auto block = blockOf(shape, scales->shape, quantization_);
  if (!block && quantization_ && quantization_->block)
    return error("'", name, "' has the shape ", shapeText(scales->shape),
                 ", which are not the scales of '", place.name, "', ", shapeText(shape),
                 ", in blocks of ", (*quantization_->block)[0], "x", (*quantization_->block)[1],
                 " (\"quantization_config.weight_block_size\")");
  if (!block)
    return error("'", name, "' has the shape ", shapeText(scales->shape),
                 ", which does not say in which blocks they scale '", place.name, "', ",
                 shapeText(shape), ": put the config.json with \"weight_block_size\" beside it");
  place.scales = scalesAt(name, scales->type, block->first, block->second);
  return ok();
}

Result<std::optional<TensorLocation>> Checkpoint::microscaled(const Stored &stored) {
  std::string base = stored.name.substr(0, stored.name.size() - std::string("blocks").size());
  std::string name = base + "scales";
  const TensorView *scales = take(name);
  if (!scales)
    return error("'", stored.name, "' is there, but its scales, '", name, "', are missing");
  if (stored.shape.size() < 2 || stored.shape.back() % kMicroscaled != 0)
    return error("'", stored.name, "': the model needs the shape ", shapeText(stored.shape),
                 ", whose rows are no blocks of ", kMicroscaled);
  std::vector<int64_t> grid = stored.shape, codes;
  grid.back() /= kMicroscaled;
  codes = grid;
  codes.push_back(kMicroscaled / 2); // bytes
  auto check = [&](const std::string &what, const TensorView &tensor,
                   const std::vector<int64_t> &shape) -> Status {
    if (tensor.type == ElementType::U8 && tensor.shape == shape)
      return ok();
    return error("'", what, "' holds ", toString(tensor.type), " of the shape ",
                 shapeText(tensor.shape), ", expected U8 of ", shapeText(shape),
                 " for the model's ", shapeText(stored.shape));
  };
  if (Status s = check(stored.name, *stored.tensor, codes); !s)
    return s.takeError();
  if (Status s = check(name, *scales, grid); !s)
    return s.takeError();
  TensorLocation place = placeOf(stored, ElementType::F4E2M1);
  place.scales = scalesAt(name, ElementType::F8E8M0, 1, kMicroscaled);
  return std::optional(std::move(place));
}

std::string Checkpoint::notes() const {
  std::string out;
  if (!unscaled_.empty())
    out = text("'", *unscaled_.begin(), "'",
               unscaled_.size() > 1 ? text(" and ", unscaled_.size() - 1, " more") : "",
               unscaled_.size() > 1 ? " hold" : " holds",
               " 8-bit floats without scales: their numbers are taken as they stand");
  std::vector<std::string> left;
  for (const std::string &name : set_.names())
    if (!read_.count(name))
      left.push_back("'" + name + "'");
  if (left.empty())
    return out;
  out += text(out.empty() ? "" : "; ", left.size(),
              left.size() == 1 ? " tensor is" : " tensors are", " not read: ");
  for (size_t i = 0; i < left.size() && i < 5; ++i)
    out += (i ? ", " : "") + left[i];
  return left.size() > 5 ? out + ", ..." : out;
}

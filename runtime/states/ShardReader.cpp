#include "runtime/states/ShardReader.h"

#include "runtime/states/Dequantizer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <type_traits>

using namespace llmc;
using namespace llmc::runtime;
using support::ElementType;
using support::ok;
using support::Status;

namespace {

constexpr int64_t kPage = 4096;             // bytes; smaller gaps are read with the rest
constexpr int64_t kBuffer = int64_t(4) << 20; // bytes read at once into the buffer
constexpr int64_t kTile = 32;                 // rows and columns transposed at once

// Describes a dim of `count` elements: `file` elements apart in the file, `local` in memory.
struct Dim {
  int64_t count, file, local;
};
struct Box {
  int64_t first = 0, local = 0; // of the first element, in the file and in memory
  std::vector<Dim> dims;        // descending file strides, all positive
};

// Sorts the dims by their file strides, makes those positive and merges contiguous dims.
void order(Box &box) {
  std::vector<Dim> dims;
  for (Dim dim : box.dims) {
    if (dim.count == 1)
      continue;
    if (dim.file < 0) {
      box.first += dim.file * (dim.count - 1);
      box.local += dim.local * (dim.count - 1);
      dim.file = -dim.file;
      dim.local = -dim.local;
    }
    dims.push_back(dim);
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim &a, const Dim &b) { return a.file > b.file; });
  box.dims.clear();
  for (const Dim &dim : dims) {
    if (!box.dims.empty() && box.dims.back().file == dim.file * dim.count &&
        box.dims.back().local == dim.local * dim.count)
      box.dims.back() = {box.dims.back().count * dim.count, dim.file, dim.local};
    else
      box.dims.push_back(dim);
  }
}

// Converts `count` elements; `decode` maps an S as stored to a number.
template <class S, class T, class F>
void convert(const std::byte *from, int64_t fromStride, T *to, int64_t toStride, int64_t count,
             F decode) {
  auto one = [&](int64_t source, int64_t target) {
    S value;
    std::memcpy(&value, from + source * int64_t(sizeof(S)), sizeof value);
    to[target] = static_cast<T>(decode(value));
  };
  if (fromStride == 1 && toStride == 1) // this loop vectorizes
    for (int64_t i = 0; i < count; ++i)
      one(i, i);
  else
    for (int64_t i = 0; i < count; ++i)
      one(i * fromStride, i * toStride);
}

template <class T>
constexpr ElementType typeOf() {
  if constexpr (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? ElementType::F32 : ElementType::F64;
  else
    return T::kType;
}

template <class T>
class Reader {
public:
  Reader(const StoredTensor &tensor, Box box, T *to)
      : tensor(tensor), size(sizeInBuffer(tensor)), box(std::move(box)), to(to),
        extent(this->box.dims.size() + 1, 1), dense(this->box.dims.size() + 1, true) {
    for (size_t d = this->box.dims.size(); d-- > 0;) {
      const Dim &dim = this->box.dims[d];
      extent[d] = extent[d + 1] + dim.file * (dim.count - 1);
      dense[d] = dense[d + 1] && (dim.file - extent[d + 1]) * size < kPage;
    }
    if (Dequantizer::takes(tensor))
      dequantizer.emplace(tensor);
    same = dequantizer || tensor.type == kOwn;
  }

  Status run() { return read(0, box.first, box.local); }

private:
  // Returns the bytes of an element in the buffer: the dequantizer yields T.
  static int64_t sizeInBuffer(const StoredTensor &tensor) {
    return static_cast<int64_t>(Dequantizer::takes(tensor) ? sizeof(T)
                                                           : support::byteSize(tensor.type));
  }

  // Reads the elements of dims d, d + 1, ... from element `first` of the file on.
  Status read(size_t d, int64_t first, int64_t local) {
    size_t dims = box.dims.size();
    bool row = d + 1 >= dims && (d == dims || (box.dims[d].file == 1 && box.dims[d].local == 1));
    if (row && same)
      return load(first, extent[d], to + local);
    if (d == dims || (dense[d] && extent[d] * size <= kBuffer)) {
      buffer.resize(static_cast<size_t>(extent[d] * size));
      if (Status s = load(first, extent[d], buffer.data()); !s)
        return s;
      scatter(d, buffer.data(), to + local);
      return ok();
    }
    const Dim &dim = box.dims[d];
    if (turns(d) && extent[d + 1] * size <= kBuffer)
      return readTurned(d, first, local);
    if (d + 1 < dims || !dense[d]) {
      for (int64_t i = 0; i < dim.count; ++i)
        if (Status s = read(d + 1, first + i * dim.file, local + i * dim.local); !s)
          return s;
      return ok();
    }
    // Reads a long row in pieces.
    int64_t most = std::max<int64_t>(1, kBuffer / size / std::max<int64_t>(dim.file, 1));
    for (int64_t i = 0; i < dim.count; i += most) {
      int64_t count = std::min(most, dim.count - i), span = (count - 1) * dim.file + 1;
      buffer.resize(static_cast<size_t>(span * size));
      if (Status s = load(first + i * dim.file, span, buffer.data()); !s)
        return s;
      copy(buffer.data(), dim.file, to + local + i * dim.local, dim.local, count);
    }
    return ok();
  }

  Status load(int64_t first, int64_t count, void *into) {
    if (dequantizer)
      return dequantizer->read(first, count, static_cast<T *>(into));
    return tensor.file->read(tensor.offset + static_cast<uint64_t>(first * size), into,
                             static_cast<size_t>(count * size));
  }

  // Tells whether rows of the file become columns in memory: dims d and d + 1, the last two.
  bool turns(size_t d) const {
    return d + 2 == box.dims.size() && box.dims[d].local < box.dims[d + 1].local;
  }

  // Reads as many rows at a time as the buffer holds and transposes them; skips large gaps.
  Status readTurned(size_t d, int64_t first, int64_t local) {
    const Dim &row = box.dims[d];
    int64_t length = extent[d + 1], pitch = dense[d] ? row.file : length;
    int64_t most = std::max<int64_t>(1, kBuffer / size / std::max<int64_t>(pitch, 1));
    for (int64_t i = 0; i < row.count; i += most) {
      int64_t rows = std::min(most, row.count - i);
      int64_t loads = dense[d] ? 1 : rows, span = dense[d] ? (rows - 1) * pitch + length : length;
      buffer.resize(static_cast<size_t>(((rows - 1) * pitch + length) * size));
      for (int64_t j = 0; j < loads; ++j)
        if (Status s = load(first + (i + j) * row.file, span, buffer.data() + j * pitch * size); !s)
          return s;
      turn(d, rows, pitch, buffer.data(), to + local + i * row.local);
    }
    return ok();
  }

  // Writes rows, `pitch` elements apart, as columns. Decodes each tile along the rows of the
  // file and writes it along the rows of memory, since a loop in one of the two orders alone
  // misses the cache at each element of the other.
  void turn(size_t d, int64_t rows, int64_t pitch, const std::byte *from, T *into) {
    const Dim &row = box.dims[d], &column = box.dims[d + 1];
    std::array<T, kTile * kTile> tile;
    for (int64_t c = 0; c < column.count; c += kTile) {
      int64_t width = std::min(kTile, column.count - c);
      for (int64_t r = 0; r < rows; r += kTile) {
        int64_t height = std::min(kTile, rows - r);
        for (int64_t i = 0; i < height; ++i)
          copy(from + ((r + i) * pitch + c * column.file) * size, column.file,
               tile.data() + i * kTile, 1, width);
        for (int64_t j = 0; j < width; ++j)
          for (int64_t i = 0; i < height; ++i)
            into[(c + j) * column.local + (r + i) * row.local] =
                tile[static_cast<size_t>(i * kTile + j)];
      }
    }
  }

  void scatter(size_t d, const std::byte *from, T *into) {
    if (turns(d)) {
      turn(d, box.dims[d].count, box.dims[d].file, from, into);
    } else if (d + 1 < box.dims.size()) {
      const Dim &dim = box.dims[d];
      for (int64_t i = 0; i < dim.count; ++i)
        scatter(d + 1, from + i * dim.file * size, into + i * dim.local);
    } else if (d < box.dims.size()) {
      copy(from, box.dims[d].file, into, box.dims[d].local, box.dims[d].count);
    } else {
      copy(from, 1, into, 1, 1);
    }
  }

  void copy(const std::byte *from, int64_t fromStride, T *into, int64_t intoStride,
            int64_t count) {
    switch (dequantizer ? kOwn : tensor.type) {
    case ElementType::F16:
      return convert<uint16_t>(from, fromStride, into, intoStride, count,
                               [](uint16_t bits) { return support::halfToFloat(bits); });
    case ElementType::BF16:
      return convert<uint16_t>(from, fromStride, into, intoStride, count,
                               [](uint16_t bits) { return support::bfloatToFloat(bits); });
    case ElementType::F32:
      return convert<float>(from, fromStride, into, intoStride, count,
                            [](float value) { return value; });
    case ElementType::F64:
      return convert<double>(from, fromStride, into, intoStride, count,
                             [](double value) { return value; });
    default:
      for (int64_t i = 0; i < count; ++i)
        into[i * intoStride] = static_cast<T>(
            support::readAsDouble(tensor.type, from, static_cast<size_t>(i * fromStride)));
    }
  }

  static constexpr ElementType kOwn = typeOf<T>();

  const StoredTensor &tensor;
  const int64_t size; // of an element in the buffer
  const Box box;
  T *const to;
  std::vector<int64_t> extent; // elements of the file spanned by dims d, d + 1, ...
  std::vector<bool> dense;     // by dim: no gap of a page in that span
  bool same = false;           // nothing to convert
  std::vector<std::byte> buffer;
  std::optional<Dequantizer> dequantizer;
};

// Maps strides to those in the transpose that the file holds; returns nullopt if a stride is
// negative or a dim crosses the end of a row, which no stride can express.
std::optional<Box> transposed(Box box, const std::vector<int64_t> &shape) {
  int64_t rows = shape[0], columns = shape[1], last = box.first % columns;
  for (Dim &dim : box.dims) {
    if (dim.file < 0)
      return std::nullopt;
    last += dim.file % columns * (dim.count - 1);
    dim.file = dim.file % columns * rows + dim.file / columns;
  }
  box.first = box.first % columns * rows + box.first / columns;
  return last < columns ? std::optional(std::move(box)) : std::nullopt;
}

} // namespace

template <class T>
Status runtime::readShard(const StoredTensor &tensor, const Shard &shard,
                          const planfile::ViewT &view, T *to) {
  Box box;
  box.first = view.offset;
  int64_t stride = 1;
  for (size_t d = shard.local.size(); d-- > 0; stride *= shard.local[d]) {
    if (shard.valid[d] <= 0)
      return ok();
    box.first += shard.start[d] * view.strides[d];
    if (shard.valid[d] > 1)
      box.dims.push_back({shard.valid[d], view.strides[d], stride});
  }
  if (tensor.transposed) {
    std::optional<Box> turned = transposed(box, tensor.shape);
    if (!turned) {
      // Reads and transposes the whole tensor, then applies the view.
      int64_t rows = tensor.shape[0], columns = tensor.shape[1];
      std::vector<T> whole(static_cast<size_t>(rows * columns));
      Box all{0, 0, {{columns, rows, 1}, {rows, 1, columns}}};
      order(all);
      if (Status s = Reader<T>(tensor, std::move(all), whole.data()).run(); !s)
        return s;
      forEachRun(shard, view, [&](int64_t local, int64_t source, int64_t count, int64_t step) {
        for (int64_t i = 0; i < count; ++i)
          to[local + i] = whole[static_cast<size_t>(source + i * step)];
      });
      return ok();
    }
    box = std::move(*turned);
  }
  order(box);
  return Reader<T>(tensor, std::move(box), to).run();
}

template Status runtime::readShard(const StoredTensor &, const Shard &, const planfile::ViewT &,
                                   float *);
template Status runtime::readShard(const StoredTensor &, const Shard &, const planfile::ViewT &,
                                   double *);
template Status runtime::readShard(const StoredTensor &, const Shard &, const planfile::ViewT &,
                                   support::BfloatNumber *);
template Status runtime::readShard(const StoredTensor &, const Shard &, const planfile::ViewT &,
                                   support::HalfNumber *);

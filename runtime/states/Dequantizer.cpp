#include "runtime/states/Dequantizer.h"

#include "lib/support/Checkpoint.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;
using support::ElementType;
using support::ok;
using support::Status;

namespace {

constexpr int64_t kPiece = int64_t(1) << 18; // elements decoded at once, which fit into the cache
constexpr int64_t kPage = 4096;              // least bytes of scales read at once

} // namespace

bool Dequantizer::takes(const StoredTensor &tensor) {
  return support::decodeTable(tensor.type) != nullptr;
}

Dequantizer::Dequantizer(const StoredTensor &tensor)
    : tensor(tensor), table(support::decodeTable(tensor.type)) {
  std::vector<int64_t> shape = tensor.shape;
  if (tensor.transposed)
    std::swap(shape[0], shape[1]);
  int64_t matrices = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    (d + 1 == shape.size() ? columns : d + 2 == shape.size() ? rows : matrices) *= shape[d];
  if (!tensor.scales)
    return;
  scaleRows = support::blocksOf(rows, tensor.scales->rows);
  scaleColumns = support::blocksOf(columns, tensor.scales->columns);
  scaleCount = matrices * scaleRows * scaleColumns;
}

int64_t Dequantizer::scaleOf(int64_t row, int64_t column) const {
  int64_t scaleRow = row / rows * scaleRows + row % rows / tensor.scales->rows;
  return scaleRow * scaleColumns + column / tensor.scales->columns;
}

// Loads scales [first, last] unless they are loaded, with some after them for later runs.
Status Dequantizer::loadScales(int64_t first, int64_t last) {
  if (first >= firstScale && last < firstScale + static_cast<int64_t>(scales.size()))
    return ok();
  auto size = static_cast<int64_t>(support::byteSize(tensor.scales->type));
  int64_t count = std::min(std::max(last + 1 - first, kPage / size), scaleCount - first);
  std::vector<std::byte> bytes(static_cast<size_t>(count * size));
  if (Status s = tensor.scales->file->read(
          tensor.scales->offset + static_cast<uint64_t>(first * size), bytes.data(), bytes.size());
      !s)
    return s;
  firstScale = first;
  scales.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] = static_cast<float>(support::readAsDouble(tensor.scales->type, bytes.data(), i));
  return ok();
}

template <class T> Status Dequantizer::read(int64_t first, int64_t count, T *to) {
  int64_t shared = tensor.type == ElementType::F4E2M1 ? 2 : 1; // codes a byte
  for (int64_t done = 0, piece; done < count; done += piece) {
    int64_t from = first + done;
    piece = std::min(kPiece, count - done);
    int64_t begin = from / shared, end = (from + piece - 1) / shared + 1;
    codes.resize(static_cast<size_t>(end - begin));
    firstCode = begin * shared;
    if (Status s = tensor.file->read(tensor.offset + static_cast<uint64_t>(begin), codes.data(),
                                     codes.size());
        !s)
      return s;
    if (tensor.scales) {
      int64_t row = from / columns, last = (from + piece - 1) / columns;
      bool within = row == last;
      if (Status s = loadScales(scaleOf(row, within ? from % columns : 0),
                                scaleOf(last, within ? (from + piece - 1) % columns : columns - 1));
          !s)
        return s;
    }
    decode(from, piece, to + done);
  }
  return ok();
}

// Decodes one piece whose codes and scales are loaded.
template <class T> void Dequantizer::decode(int64_t first, int64_t count, T *to) const {
  if (!tensor.scales)
    return decodeRun(first, count, 1, to);
  int64_t width = tensor.scales->columns;
  for (int64_t done = 0; done < count;) {
    int64_t row = (first + done) / columns, column = (first + done) % columns;
    int64_t end = std::min(columns, column + count - done);
    const float *scale = scales.data() + (scaleOf(row, column) - firstScale);
    while (column < end) {
      int64_t run = std::min(end - column, width - column % width);
      decodeRun(first + done, run, *scale++, to + done);
      done += run;
      column += run;
    }
  }
}

template <class T>
void Dequantizer::decodeRun(int64_t place, int64_t count, float scale, T *to) const {
  place -= firstCode;
  if (tensor.type != ElementType::F4E2M1) {
    const uint8_t *from = codes.data() + place;
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<T>(table[from[i]] * scale);
    return;
  }
  const uint8_t *from = codes.data() + place / 2;
  int64_t i = 0;
  if (place % 2 != 0 && count > 0)
    to[i++] = static_cast<T>(table[*from++ * 2 + 1] * scale);
  for (; i + 2 <= count; i += 2, ++from) {
    to[i] = static_cast<T>(table[*from * 2] * scale);
    to[i + 1] = static_cast<T>(table[*from * 2 + 1] * scale);
  }
  if (i < count)
    to[i] = static_cast<T>(table[*from * 2] * scale);
}

template Status Dequantizer::read(int64_t, int64_t, float *);
template Status Dequantizer::read(int64_t, int64_t, double *);
template Status Dequantizer::read(int64_t, int64_t, support::BfloatNumber *);
template Status Dequantizer::read(int64_t, int64_t, support::HalfNumber *);

#include "lib/support/Npy.h"

#include "lib/support/OutputFile.h"

#include <charconv>
#include <cstring>

using namespace llmc::support;

namespace {

constexpr std::pair<std::string_view, ElementType> kKinds[] = {
    {"b1", ElementType::Bool}, {"i1", ElementType::I8},  {"u1", ElementType::U8},
    {"f8", ElementType::F64},  {"f4", ElementType::F32}, {"f2", ElementType::F16},
    {"i8", ElementType::I64},  {"i4", ElementType::I32}, {"i2", ElementType::I16},
    {"u8", ElementType::U64},  {"u4", ElementType::U32}, {"u2", ElementType::U16}};

std::optional<ElementType> typeFromDescr(std::string_view descr) {
  for (const auto &[kind, type] : kKinds)
    // Ignores the order of one byte; else accepts little endian only.
    if (descr.size() == 3 && descr.substr(1) == kind && (kind[1] == '1' || descr[0] == '<'))
      return type;
  return std::nullopt;
}

// Returns the text after 'key': in a Python dictionary, without leading blanks; empty if there is
// no such key.
std::string_view valueOf(std::string_view header, std::string_view key) {
  size_t at = header.find(text("'", key, "'"));
  if (at == std::string_view::npos)
    return {};
  header.remove_prefix(at + key.size() + 2);
  size_t colon = header.find(':');
  if (colon == std::string_view::npos)
    return {};
  header.remove_prefix(colon + 1);
  size_t start = header.find_first_not_of(' ');
  return start == std::string_view::npos ? std::string_view{} : header.substr(start);
}

// Parses a shape: "(3, 4)", "(3,)" or "()".
std::optional<std::vector<int64_t>> shapeFrom(std::string_view value) {
  size_t close = value.find(')');
  if (value.empty() || value[0] != '(' || close == std::string_view::npos)
    return std::nullopt;
  value = value.substr(1, close - 1);
  std::vector<int64_t> shape;
  while (true) {
    size_t start = value.find_first_not_of(" ,");
    if (start == std::string_view::npos)
      return shape;
    value.remove_prefix(start);
    int64_t dim = 0;
    auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), dim);
    if (code != std::errc() || dim < 0)
      return std::nullopt;
    shape.push_back(dim);
    value.remove_prefix(static_cast<size_t>(end - value.data()));
  }
}

} // namespace

Result<NpyFile> NpyFile::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  NpyFile npy(std::move(*file));
  if (Status s = npy.readHeader(); !s)
    return error("'", path, "': ", s.message());
  return npy;
}

Status llmc::support::writeNpy(const std::string &path, ElementType type,
                               const std::vector<int64_t> &shape,
                               std::span<const std::byte> bytes) {
  std::string_view kind;
  for (const auto &[name, known] : kKinds)
    if (known == type)
      kind = name;
  std::optional<uint64_t> count = elementCount(shape);
  if (kind.empty() || !count || *count * byteSize(type) != bytes.size())
    return error("'", path, "': no array of ", toString(type));
  std::string header =
      text("{'descr': '", kind[1] == '1' ? "|" : "<", kind, "', 'fortran_order': False, 'shape': (");
  for (int64_t dim : shape)
    header += text(dim, ", ");
  header += "), }";
  // Aligns the data to 64 bytes; version 2 has four bytes for the length.
  constexpr size_t fixed = 12, alignment = 64;
  header.resize((fixed + header.size() + alignment) / alignment * alignment - fixed, ' ');
  header.back() = '\n';
  std::string start("\x93NUMPY\x02\x00", 8);
  auto length = static_cast<uint32_t>(header.size());
  start.append(reinterpret_cast<const char *>(&length), sizeof length);
  Result<OutputFile> file = OutputFile::create(path);
  if (!file)
    return file.takeError();
  if (Status s = file->write(start + header); !s)
    return s;
  if (Status s = file->write(bytes.data(), bytes.size()); !s)
    return s;
  return file->commit();
}

Status NpyFile::readHeader() {
  std::span<const std::byte> bytes = file_.bytes();
  std::string_view all(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (all.size() < 12 || all.substr(0, 6) != std::string_view("\x93NUMPY", 6))
    return error("not a .npy file");
  size_t length = 0, start = 0;
  if (all[6] == 1) {
    uint16_t value;
    std::memcpy(&value, all.data() + 8, 2);
    length = value, start = 10;
  } else if (all[6] == 2 || all[6] == 3) {
    uint32_t value;
    std::memcpy(&value, all.data() + 8, 4);
    length = value, start = 12;
  } else {
    return error("unknown .npy version");
  }
  if (length > all.size() - start)
    return error("the header is cut off");
  std::string_view header = all.substr(start, length);
  offset_ = start + length;

  std::string_view descr = valueOf(header, "descr");
  std::optional<ElementType> type =
      descr.size() > 4 && descr[0] == '\'' && descr[4] == '\'' ? typeFromDescr(descr.substr(1, 3))
                                                               : std::nullopt;
  if (!type)
    return error("unsupported element type ", descr.substr(0, descr.find(',')),
                 "; save it as int64, int32 or float32, little endian");
  type_ = *type;
  std::string_view order = valueOf(header, "fortran_order");
  bool fortran = order.substr(0, 4) == "True";
  if (!fortran && order.substr(0, 5) != "False")
    return error("the header does not say in which order the array is");
  std::optional<std::vector<int64_t>> shape = shapeFrom(valueOf(header, "shape"));
  if (!shape)
    return error("the header has no valid shape");
  shape_ = std::move(*shape);
  std::optional<uint64_t> count = elementCount(shape_);
  if (!count || *count > (all.size() - offset_) / byteSize(type_))
    return error("truncated: fewer bytes than its shape needs");
  if (fortran && shape_.size() > 1 && *count > 0)
    turn();
  return ok();
}

void NpyFile::turn() {
  size_t size = byteSize(type_), count = *elementCount(shape_);
  const std::byte *from = file_.bytes().data() + offset_;
  turned_.resize(count * size);
  // Computes the strides of the file, where the first index is the fastest.
  std::vector<size_t> strides(shape_.size()), at(shape_.size(), 0);
  size_t stride = 1;
  for (size_t d = 0; d < shape_.size(); stride *= static_cast<size_t>(shape_[d++]))
    strides[d] = stride;
  size_t source = 0;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&turned_[i * size], from + source * size, size);
    for (size_t d = shape_.size(); d-- > 0;) {
      source += strides[d];
      if (++at[d] < static_cast<size_t>(shape_[d]))
        break;
      source -= at[d] * strides[d];
      at[d] = 0;
    }
  }
}

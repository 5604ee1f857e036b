#include "runtime/data/TokenFile.h"

#include "lib/support/Counted.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>

using namespace llmc;
using namespace llmc::runtime;
using support::ElementType;
using support::error;
using support::ok;
using support::ReadableFile;
using support::Status;
using support::text;

namespace {

constexpr int64_t kLargestU16Vocabulary = 65536;
constexpr size_t kNamed = 3; // bad tokens named in a message

std::string lowerName(ElementType type) {
  std::string name(support::toString(type));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

// Describes Megatron-LM's index, version 1 (megatron/core/datasets/indexed_dataset.py), all
// little endian: magic, u64 version, u8 code of the type, u64 sequences, u64 entries of the
// document index, i32 length of each sequence, i64 offset of each in the .bin, i64 document
// index (the first sequence of each document, and their number).
constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kFixed = 9 + 8 + 1 + 8 + 8;

struct Index {
  ElementType type = ElementType::U16;
  uint64_t sequences = 0, documents = 0, begin = 0, tokens = 0;
};

template <class T> support::Result<T> readOne(const ReadableFile &file, uint64_t offset) {
  T value{};
  if (Status s = file.read(offset, &value, sizeof value); !s)
    return s.takeError();
  return value;
}

std::optional<ElementType> typeOfCode(uint8_t code) {
  switch (code) {
  case 1:
    return ElementType::U8;
  case 2:
    return ElementType::I8;
  case 3:
    return ElementType::I16;
  case 4:
    return ElementType::I32;
  case 5:
    return ElementType::I64;
  case 8:
    return ElementType::U16;
  default:
    return std::nullopt; // 6 and 7 are float types
  }
}

bool isIndex(const std::string &path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code))
    return false;
  support::Result<ReadableFile> file = ReadableFile::open(path);
  char magic[kMagic.size()];
  return file && file->read(0, magic, sizeof magic) &&
         std::string_view(magic, sizeof magic) == kMagic;
}

// Reads the sequences into `index`; fails unless they are contiguous in the .bin, as
// Megatron's own tools write them.
Status readSequences(const ReadableFile &file, Index &index) {
  constexpr uint64_t kChunk = 1 << 16;
  std::vector<int32_t> sizes(kChunk);
  std::vector<int64_t> places(kChunk);
  uint64_t width = support::byteSize(index.type);
  for (uint64_t at = 0; at < index.sequences; at += kChunk) {
    uint64_t count = std::min(kChunk, index.sequences - at);
    if (Status s = file.read(kFixed + at * 4, sizes.data(), count * 4); !s)
      return s;
    if (Status s = file.read(kFixed + index.sequences * 4 + at * 8, places.data(), count * 8); !s)
      return s;
    for (uint64_t i = 0; i < count; ++i) {
      if (at + i == 0 && places[0] < 0)
        return error("'", file.path(), "': sequence 0 begins at byte ", places[0], " of the .bin");
      if (at + i == 0)
        index.begin = static_cast<uint64_t>(places[0]);
      if (sizes[i] < 0 || static_cast<uint64_t>(places[i]) != index.begin + index.tokens * width)
        return error("'", file.path(), "': sequence ", at + i, " begins at byte ", places[i],
                     " of the .bin where the one before it ends at ",
                     index.begin + index.tokens * width,
                     "; only sequences that follow one another are read, as Megatron's "
                     "preprocess_data.py and merge_datasets.py write them");
      index.tokens += static_cast<uint64_t>(sizes[i]);
    }
  }
  return ok();
}

support::Result<Index> readIndex(const ReadableFile &file) {
  auto wrong = [&](const auto &...why) { return error("'", file.path(), "': ", why...); };
  if (file.size() < kFixed)
    return wrong("cut off: an index has at least ", kFixed, " bytes, this one has ", file.size());
  support::Result<uint64_t> version = readOne<uint64_t>(file, 9),
                            sequences = readOne<uint64_t>(file, 18),
                            entries = readOne<uint64_t>(file, 26);
  support::Result<uint8_t> type = readOne<uint8_t>(file, 17);
  if (!version || !type || !sequences || !entries)
    return wrong("cannot be read");
  if (*version != 1)
    return wrong("version ", *version, " of Megatron's index; version 1 is read");
  std::optional<ElementType> known = typeOfCode(*type);
  if (!known)
    return wrong("type ", int(*type),
                 " of Megatron's index; tokens are integers "
                 "(1 to 5, and 8 for u16)");
  if (*sequences > file.size() / 12 || *entries > file.size() / 8 || *entries == 0 ||
      kFixed + *sequences * 12 + *entries * 8 > file.size())
    return wrong("cut off: ", *sequences, " sequences and ", *entries,
                 " entries of documents do not fit into ", file.size(), " bytes");
  if (uint64_t end = kFixed + *sequences * 12 + *entries * 8; end != file.size())
    return wrong("has ", file.size(), " bytes, ", *sequences, " sequences and ", *entries,
                 " entries of documents take ", end, "; only indices of text alone are read");
  support::Result<int64_t> last =
      readOne<int64_t>(file, kFixed + *sequences * 12 + (*entries - 1) * 8);
  if (!last)
    return last.takeError();
  if (static_cast<uint64_t>(*last) != *sequences)
    return wrong("the documents end at sequence ", *last, ", there are ", *sequences);
  Index index{*known, *sequences, *entries - 1, 0, 0};
  if (Status s = readSequences(file, index); !s)
    return s.takeError();
  return index;
}

// Returns PREFIX if `path` names a pair of Megatron's; none if it is a raw file.
std::optional<std::string> prefixOf(const std::string &path) {
  std::filesystem::path name(path);
  std::error_code code;
  if (name.extension() == ".idx" || name.extension() == ".bin") {
    std::string prefix = path.substr(0, path.size() - 4);
    if (name.extension() == ".idx" || isIndex(prefix + ".idx"))
      return prefix;
  }
  bool pair = isIndex(path + ".idx") || std::filesystem::exists(path + ".bin", code);
  return pair && !std::filesystem::exists(name, code) ? std::optional(path) : std::nullopt;
}

// Fails if `path` is a device, pipe or folder.
Status checkRegular(const std::string &path) {
  std::error_code code;
  std::filesystem::file_status status = std::filesystem::status(path, code);
  std::string kind;
  switch (status.type()) {
  case std::filesystem::file_type::directory:
    kind = "a folder; name a file in it, or several with --data WEIGHT:FILE each";
    break;
  case std::filesystem::file_type::fifo:
  case std::filesystem::file_type::socket:
    kind = "a pipe; rows are read in any order and several times, so write it to a file first";
    break;
  case std::filesystem::file_type::character:
  case std::filesystem::file_type::block:
    kind = "a device; rows are read in any order and several times, so copy it to a file first";
    break;
  default:
    return ok(); // open() reports a missing file
  }
  return error("'", path, "' is ", kind);
}

} // namespace

support::Result<TokenFile> TokenFile::open(const std::string &path, const TokenFormat &format) {
  if (Status s = checkRegular(path); !s)
    return s.takeError();
  std::optional<std::string> prefix = prefixOf(path);
  support::Result<TokenFile> file = prefix ? openIndexed(*prefix, format) : openRaw(path, format);
  if (file)
    file->rows_ = file->tokens_ > format.seq ? (file->tokens_ - 1) / format.seq : 0;
  return file;
}

support::Result<TokenFile> TokenFile::openRaw(const std::string &path, const TokenFormat &format) {
  support::Result<ReadableFile> opened = ReadableFile::open(path);
  if (!opened)
    return opened.takeError();
  TokenFile file(std::move(*opened), format);
  file.type_ = format.type                                  ? *format.type
               : format.vocabulary <= kLargestU16Vocabulary ? ElementType::U16
                                                            : ElementType::U32;
  if (Status s = file.checkKind(); !s)
    return s.takeError();
  uint64_t width = support::byteSize(file.type_), size = file.file_.size();
  if (size % width != 0)
    return error("'", path, "' has ", size, " bytes, not a multiple of ", width, ": ",
                 format.type ? text("--data-dtype says raw ")
                             : text("a vocabulary of ", format.vocabulary, " needs raw "),
                 lowerName(file.type_), " tokens");
  file.tokens_ = size / width;
  return file;
}

support::Result<TokenFile> TokenFile::openIndexed(const std::string &prefix,
                                                  const TokenFormat &format) {
  for (const char *end : {".idx", ".bin"})
    if (Status s = checkRegular(prefix + end); !s)
      return s.takeError();
  support::Result<ReadableFile> idx = ReadableFile::open(prefix + ".idx");
  if (!idx)
    return idx.takeError();
  if (!isIndex(prefix + ".idx"))
    return error("'", prefix, ".idx' is not an index of Megatron-LM (it begins with MMIDIDX)");
  support::Result<Index> index = readIndex(*idx);
  if (!index)
    return index.takeError();
  support::Result<ReadableFile> bin = ReadableFile::open(prefix + ".bin");
  if (!bin)
    return bin.takeError();
  if (format.type && *format.type != index->type)
    return error("--data-dtype ", lowerName(*format.type), ": '", prefix,
                 ".idx' says that the tokens are ", lowerName(index->type));
  uint64_t width = support::byteSize(index->type);
  // Compares without a sum that could overflow.
  if (index->begin > bin->size() || index->tokens > (bin->size() - index->begin) / width ||
      index->begin + index->tokens * width != bin->size())
    return error("'", prefix, ".bin' has ", bin->size(), " bytes, its index wants ",
                 index->begin + index->tokens * width, ": they are not of one data set");
  TokenFile file(std::move(*bin), format);
  file.type_ = index->type;
  file.start_ = index->begin;
  file.tokens_ = index->tokens;
  file.documents_ = text(" in ", support::counted(index->documents, "document"),
                         index->documents == 1 ? "" : ", one after the other");
  return file;
}

// Fails if the first bytes show that the file is a .npy file, text, or u32 tokens read as
// u16.
Status TokenFile::checkKind() const {
  // Accepts a shorter file, which proves too little.
  constexpr size_t kLeast = 128, kSample = 1 << 15;
  size_t size = std::min<uint64_t>(file_.size(), kSample) / 4 * 4;
  if (size < kLeast)
    return ok();
  std::vector<unsigned char> bytes(size);
  if (Status s = file_.read(0, bytes.data(), size); !s)
    return s;
  if (std::memcmp(bytes.data(), "\x93NUMPY", 6) == 0)
    return error("'", path(),
                 "' is a .npy file; --data takes raw tokens, arrays come with --input "
                 "NAME=FILE.npy");
  if (std::all_of(bytes.begin(), bytes.end(), [](unsigned char c) {
        return c == '\n' || c == '\r' || c == '\t' || (c >= ' ' && c != 0x7f);
      }))
    return error("'", path(),
                 "' looks like text, --data takes tokens; scripts/tokenize.py makes "
                 "them of text",
                 format_.type ? "" : " (--data-dtype u16 or u32: it is none)");
  auto asU16 = [&](size_t i) { return support::readAsInteger(ElementType::U16, bytes.data(), i); };
  bool oddZero = true, evenZero = true;
  for (size_t i = 0; i < size / 2; i += 2) {
    oddZero &= asU16(i + 1) == 0;
    evenZero &= asU16(i) == 0;
  }
  if (!format_.type && type_ == ElementType::U16 && file_.size() % 4 == 0 && oddZero && !evenZero)
    return error("'", path(),
                 "' looks like u32 tokens: every second u16 of it is 0; give "
                 "--data-dtype u32, or --data-dtype u16 if it is u16 all the same");
  return ok();
}

std::string TokenFile::note() const {
  return text(path(), ": ", tokens_, " ", lowerName(type_), " tokens", documents_, ", ", rows_,
              " rows of ", format_.seq);
}

Status TokenFile::read(uint64_t row, std::vector<int64_t> &to) const {
  uint64_t width = support::byteSize(type_), count = format_.seq + 1;
  thread_local std::vector<std::byte> bytes;
  bytes.resize(count * width);
  if (Status s = file_.read(start_ + row * format_.seq * width, bytes.data(), bytes.size()); !s)
    return s;
  to.resize(count);
  bool good = true;
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = support::readAsInteger(type_, bytes.data(), i);
    good &= format_.vocabulary <= 0 || (to[i] >= 0 && to[i] < format_.vocabulary);
  }
  if (good)
    return ok();
  BadTokens bad;
  if (Status s = check(row * format_.seq, count, bad); !s)
    return s;
  return bad.count ? errorOf(bad) : error("'", path(), "' changes while it is read");
}

namespace {

// Returns whether any value lies outside of [0, vocabulary). Values are read as unsigned: the
// vectorizer sees one maximum, and a negative i32 exceeds every vocabulary.
template <class Unsigned> bool anyBad(const std::byte *data, size_t count, int64_t vocabulary) {
  Unsigned most = 0;
  const auto *values = reinterpret_cast<const Unsigned *>(data);
  for (size_t i = 0; i < count; ++i)
    most = std::max(most, values[i]);
  return static_cast<int64_t>(most) >= vocabulary;
}

bool anyBad(ElementType type, const std::byte *data, size_t count, int64_t vocabulary) {
  switch (type) {
  case ElementType::U16:
    return anyBad<uint16_t>(data, count, vocabulary);
  case ElementType::U32:
  case ElementType::I32:
    return anyBad<uint32_t>(data, count, vocabulary);
  case ElementType::U8:
    return anyBad<uint8_t>(data, count, vocabulary);
  default:
    return true; // each value is checked on its own
  }
}

} // namespace

Status TokenFile::check(uint64_t first, uint64_t count, BadTokens &bad) const {
  if (format_.vocabulary <= 0)
    return ok();
  constexpr uint64_t kBytes = 1 << 18; // fits into the cache
  uint64_t width = support::byteSize(type_), chunk = kBytes / width;
  std::vector<std::byte> bytes(std::min(count, chunk) * width);
  for (uint64_t at = first; at < first + count; at += chunk) {
    uint64_t here = std::min(chunk, first + count - at);
    if (Status s = file_.read(start_ + at * width, bytes.data(), here * width); !s)
      return s;
    if (!anyBad(type_, bytes.data(), here, format_.vocabulary))
      continue;
    for (uint64_t i = 0; i < here; ++i) {
      int64_t token = support::readAsInteger(type_, bytes.data(), i);
      if (token >= 0 && token < format_.vocabulary)
        continue;
      // The last token of all is only a label, of the last position of the last row.
      uint64_t row = std::min((at + i) / format_.seq, std::max<uint64_t>(rows_, 1) - 1);
      if (bad.first.size() < kNamed)
        bad.first.push_back({row, at + i - row * format_.seq, token});
      ++bad.count;
    }
  }
  return ok();
}

support::Error TokenFile::errorOf(const BadTokens &bad) const {
  std::string which;
  for (const BadTokens::One &one : bad.first)
    which += text(which.empty() ? "" : "; ", "token ", one.token, " at row ", one.row,
                  ", position ", one.position);
  if (bad.count > bad.first.size())
    which += "; ...";
  std::string hint;
  if (type_ == ElementType::U32 && !format_.type && !bad.first.empty() &&
      bad.first[0].token >= kLargestU16Vocabulary)
    hint = "; if the file holds u16 tokens, give --data-dtype u16";
  return error("'", path(), "': ", bad.count, bad.count == 1 ? " token is" : " tokens are",
               " outside of the vocabulary of ", format_.vocabulary, ": ", which, hint);
}

std::vector<std::string> runtime::tokenFilesOf(const std::string &path) {
  if (std::optional<std::string> prefix = prefixOf(path))
    return {*prefix + ".bin", *prefix + ".idx"};
  return {path};
}

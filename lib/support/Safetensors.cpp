#include "lib/support/Safetensors.h"

#include "lib/support/Json.h"
#include "lib/support/OutputFile.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

using namespace llmc::support;
namespace fs = std::filesystem;

namespace {

// Limits the header to as many bytes of JSON as the format's own reader accepts.
constexpr uint64_t kMaxHeader = 100'000'000;

bool isSize(const Json &value) { return value.is_number_unsigned(); }

// Parses one entry of the header; `data` is all tensor bytes. An error if the entry is malformed,
// or its offsets do not agree with its shape and `data`.
Result<TensorView> tensorFrom(const Json &entry, std::span<const std::byte> data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
    return error("needs dtype, shape and data_offsets");
  TensorView tensor;
  const std::string &dtype = entry["dtype"].get_ref<const std::string &>();
  std::optional<ElementType> type = elementTypeFromSafetensors(dtype);
  if (!type)
    return error("unknown dtype '", dtype, "'");
  tensor.type = *type;
  for (const Json &dim : entry["shape"]) {
    if (!isSize(dim) || dim.get<uint64_t>() > uint64_t(INT64_MAX))
      return error("bad shape");
    tensor.shape.push_back(dim.get<int64_t>());
  }
  const Json &begin = entry["data_offsets"][0], &end = entry["data_offsets"][1];
  if (!isSize(begin) || !isSize(end) || begin.get<uint64_t>() > end.get<uint64_t>())
    return error("bad data_offsets");
  if (end.get<uint64_t>() > data.size())
    return error("its data ends at byte ", end.get<uint64_t>(), " of ", data.size(),
                 " (truncated file?)");
  tensor.byteSize = end.get<uint64_t>() - begin.get<uint64_t>();
  std::optional<uint64_t> count = elementCount(tensor.shape);
  if (!count || *count / 2 > data.size() || byteSize(*type, *count) != tensor.byteSize)
    return error("its data has ", tensor.byteSize, " bytes, not what its shape needs");
  tensor.data = data.data() + begin.get<uint64_t>();
  return tensor;
}

} // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  SafetensorsFile result(std::move(*file));
  if (Status s = result.readHeader(); !s)
    return error("'", path, "': ", s.message());
  return result;
}

Status SafetensorsFile::readHeader() {
  std::span<const std::byte> bytes = file_.bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof length)
    return error("too short for a safetensors file (", bytes.size(), " bytes)");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxHeader || length > bytes.size() - sizeof length)
    return error("not a safetensors file, or truncated: a header of ", length,
                 " bytes in a file of ", bytes.size());
  std::string_view header(reinterpret_cast<const char *>(bytes.data()) + sizeof length, length);
  std::span<const std::byte> data = bytes.subspan(sizeof length + length);
  Result<Json> json = parseJson(header, "safetensors header");
  if (!json)
    return json.takeError();
  if (!json->is_object())
    return error("the header is not a JSON object");
  for (const auto &[name, entry] : json->items()) {
    if (name == "__metadata__") {
      if (!entry.is_object())
        return error("__metadata__ is not an object");
      for (const auto &[key, value] : entry.items())
        if (value.is_string())
          metadata_[key] = value.get<std::string>();
      continue;
    }
    Result<TensorView> tensor = tensorFrom(entry, data);
    if (!tensor)
      return error("tensor '", name, "': ", tensor.message());
    tensor->fileOffset = static_cast<size_t>(tensor->data - bytes.data());
    tensors_.emplace(name, std::move(*tensor));
  }
  return checkPlaces(static_cast<size_t>(data.data() - bytes.data()));
}

// Checks that every byte of the data belongs to exactly one tensor; otherwise the file is damaged
// or malicious.
Status SafetensorsFile::checkPlaces(size_t begin) const {
  std::vector<std::pair<size_t, const decltype(tensors_)::value_type *>> places;
  for (const auto &entry : tensors_)
    if (entry.second.byteSize)
      places.emplace_back(entry.second.fileOffset + entry.second.byteSize, &entry);
  std::sort(places.begin(), places.end(), [](const auto &x, const auto &y) {
    return std::pair(x.second->second.fileOffset, x.first) <
           std::pair(y.second->second.fileOffset, y.first);
  });
  auto unnamed = [](size_t from, size_t to) {
    return error("bytes ", from, " to ", to,
                 " belong to no tensor of its header; save the file again");
  };
  std::string problems;
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].second->second.fileOffset < places[i - 1].first)
      problems += text(problems.empty() ? "" : ", ", "'", places[i - 1].second->first, "' and '",
                       places[i].second->first, "'");
  if (!problems.empty())
    return error("tensors overlap: ", problems, "; save the file again");
  size_t end = begin;
  for (const auto &[next, entry] : places) {
    if (entry->second.fileOffset != end)
      return unnamed(end, entry->second.fileOffset);
    end = next;
  }
  return end == file_.bytes().size() ? ok() : Status(unnamed(end, file_.bytes().size()));
}

namespace {

// Reads the tensors that an index names, each with its file; all of them lie beside it.
using FileByTensor = std::map<std::string, std::string>;
Result<FileByTensor> readIndex(const fs::path &index) {
  Result<std::string> content = readFile(index.string());
  if (!content)
    return content.takeError();
  std::string name = "'" + index.string() + "'";
  Result<Json> json = parseJson(*content, name);
  if (!json)
    return json.takeError();
  if (!json->is_object() || !json->contains("weight_map") || !(*json)["weight_map"].is_object())
    return error(name, ": no object 'weight_map'");
  FileByTensor chosen;
  for (const auto &[tensor, file] : (*json)["weight_map"].items()) {
    // Requires a file of the folder, not a path out of it.
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      return error(name, ": tensor '", tensor, "' names no file of the folder");
    chosen[tensor] = (index.parent_path() / file.get<std::string>()).string();
  }
  return chosen;
}

// Returns the path of the index that selects the files of a folder; "" if there is none.
std::string indexOf(const std::string &path) {
  std::error_code code;
  if (!fs::is_directory(path, code))
    return fs::path(path).filename() == kSafetensorsIndex ? path : "";
  fs::path index = fs::path(path) / kSafetensorsIndex;
  return fs::exists(index, code) ? index.string() : "";
}

} // namespace

Result<SafetensorsSet> SafetensorsSet::open(const std::string &path) {
  std::set<std::string> paths;
  FileByTensor chosen; // by the index, if there is one
  std::error_code code;
  if (std::string index = indexOf(path); !index.empty()) {
    Result<FileByTensor> read = readIndex(index);
    if (!read)
      return read.takeError();
    chosen = std::move(*read);
    for (const auto &[name, file] : chosen)
      paths.insert(file);
    // Refuses a folder with both, for transformers takes the one file and others take the index.
    std::string whole = path + "/model.safetensors";
    if (index != path && fs::exists(whole, code) && !paths.count(whole))
      return error("the folder holds '", whole, "' and '", index,
                   "', which names other files: two models; name one of the two files");
  } else if (!fs::is_directory(path, code)) {
    paths.insert(path);
  } else {
    for (const auto &entry : fs::directory_iterator(path, code))
      if (entry.path().extension() == ".safetensors")
        paths.insert(entry.path().string());
    if (paths.empty())
      return error("no .safetensors file in the folder '", path, "'");
  }
  SafetensorsSet set;
  for (const std::string &one : paths) {
    Result<SafetensorsFile> file = SafetensorsFile::open(one);
    if (!file)
      return file.takeError();
    set.files_.push_back(std::move(*file));
  }
  for (size_t i = 0; i < set.files_.size(); ++i)
    for (const auto &[name, tensor] : set.files_[i].tensors()) {
      if (auto file = chosen.find(name);
          file != chosen.end() && file->second != set.files_[i].path())
        continue;
      auto [other, isNew] = set.fileByName_.emplace(name, i);
      if (!isNew)
        return error("'", name, "' is in '", set.files_[other->second].path(), "' and in '",
                     set.files_[i].path(),
                     "', and no model.safetensors.index.json says which "
                     "counts; name one of the files");
    }
  return set;
}

const SafetensorsFile *SafetensorsSet::fileOf(std::string_view name) const {
  auto found = fileByName_.find(name);
  return found == fileByName_.end() ? nullptr : &files_[found->second];
}

const TensorView *SafetensorsSet::find(std::string_view name) const {
  const SafetensorsFile *file = fileOf(name);
  return file ? &file->tensors().find(name)->second : nullptr;
}

std::vector<std::string> SafetensorsSet::names() const {
  std::vector<std::string> all;
  for (size_t i = 0; i < files_.size(); ++i)
    for (const auto &[name, tensor] : files_[i].tensors())
      if (fileOf(name) == &files_[i])
        all.push_back(name);
  return all;
}

Status llmc::support::writeSafetensors(const std::string &path,
                                       const std::vector<TensorToWrite> &tensors,
                                       const std::map<std::string, std::string> &metadata) {
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const TensorToWrite &tensor : tensors) {
    std::optional<uint64_t> count = elementCount(tensor.shape);
    if (!count)
      return error("'", path, "': tensor '", tensor.name, "' has a bad shape");
    if (header.contains(tensor.name))
      return error("'", path, "': tensor '", tensor.name, "' would be written twice");
    uint64_t end = at + byteSize(tensor.type, *count);
    header[tensor.name] = {{"dtype", std::string(toString(tensor.type))},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, end}}};
    at = end;
  }
  std::string head = header.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  head.resize((head.size() + 7) / 8 * 8, ' '); // the data starts aligned
  uint64_t length = head.size();

  Result<OutputFile> out = OutputFile::create(path);
  if (!out)
    return out.takeError();
  if (Status s = out->write(&length, sizeof length); !s)
    return s;
  if (Status s = out->write(head); !s)
    return s;
  for (const TensorToWrite &tensor : tensors) {
    uint64_t written = 0;
    Status s = tensor.produce([&](const void *data, size_t size) {
      written += size;
      return out->write(data, size);
    });
    if (!s)
      return s;
    if (written != byteSize(tensor.type, *elementCount(tensor.shape)))
      return error("'", path, "': tensor '", tensor.name, "' gave ", written, " bytes");
  }
  return out->commit();
}

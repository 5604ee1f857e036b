#include "lib/onnx/file/Model.h"

#include "lib/onnx/file/ExternalData.h"
#include "lib/onnx/file/Strings.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <bit>
#include <cstring>
#include <filesystem>

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;
using ::onnx::TensorProto;

// Limits the versions of ONNX's operator set; raise the newest one if a new set changes no
// operator that is read.
static constexpr int64_t oldestOpset = 7, newestOpset = 28;

std::optional<unsigned> Model::find(llvm::StringRef name) const {
  auto it = byName_.find(name);
  return it == byName_.end() ? std::nullopt : std::optional<unsigned>(it->second);
}

Result<std::unique_ptr<Model>> Model::open(llvm::StringRef path) {
  std::unique_ptr<Model> model(new Model);
  if (Status s = model->load(path); !s)
    return s.takeError();
  return std::move(model);
}

Status Model::load(llvm::StringRef path) {
  path_ = path.str();
  std::error_code code;
  if (!std::filesystem::exists(path_, code))
    return error(path_, ": there is no such file");
  if (std::filesystem::is_directory(path_, code))
    return error(path_, ": is a folder, expected an .onnx file");
  auto map = support::MappedFile::open(path_);
  if (!map)
    return map.takeError();
  if (map->size() == 0)
    return error(path_, ": the file is empty");
  auto scanned = scanWire(map->bytes());
  if (!scanned)
    return error(path_, ": ", scanned.message());
  files_.push_back(std::make_unique<DataFile>(DataFile{path_, std::move(*map)}));
  if (scanned->skeleton.size() > INT32_MAX)
    return error(path_, ": more than 2 GiB besides weights");
  if (!proto_.ParseFromString(scanned->skeleton))
    return error(path_, ": not a readable ONNX file: protobuf refuses it");
  scanned->skeleton = {};
  if (Status s = checkGraph(); !s)
    return s;
  foldStrings(proto_);
  auto flat = flatten(proto_);
  if (!flat)
    return error(path_, ": ", flat.message());
  flat_ = std::move(*flat);
  return addTensors();
}

Status Model::checkGraph() {
  if (!proto_.has_graph())
    return error(path_, ": not an ONNX model: it has no graph");
  if (graph().output_size() == 0)
    return error(path_, ": the graph has no outputs");
  return checkOpsets();
}

// Checks whether an op has meant the same since the first operator set. Before `oldestOpset`,
// elementwise ops broadcast by an attribute, and others had inputs as attributes.
static bool isTimeless(const ::onnx::NodeProto &node) {
  static const llvm::StringSet<> ops = {"Not",  "Shape", "Size",   "Transpose", "Squeeze", "Unsqueeze",
                                        "Slice", "Gather", "Constant", "ArgMax",  "ArgMin",  "ReduceSum",
                                        "ReduceMean", "ReduceMax", "ReduceMin"};
  return node.domain().empty() && ops.contains(node.op_type());
}

// Fails for versions of ONNX's operator set, of the model or of a function, that are not read. An
// older set is accepted if all nodes of the graph are timeless.
Status Model::checkOpsets() {
  auto check = [&](const auto &imports, const std::string &where) -> Status {
    for (const auto &set : imports) {
      if (!set.domain().empty() && set.domain() != "ai.onnx")
        continue;
      bool isMain = &imports == &proto_.opset_import();
      if (isMain && set.version() >= 1 && set.version() < oldestOpset &&
          graph().node_size() && llvm::all_of(graph().node(), isTimeless))
        continue;
      if (set.version() < oldestOpset || set.version() > newestOpset)
        return error(path_, ": ", where, "operator set ", set.version(),
                     set.version() < oldestOpset ? " is too old: " : " is not known: ",
                     oldestOpset, " to ", newestOpset,
                     " are read (export again, 18 is a good choice)");
    }
    return support::ok();
  };
  for (const auto &function : proto_.functions())
    if (Status s = check(function.opset_import(), "function '" + function.name() + "': "); !s)
      return s;
  if (llvm::none_of(proto_.opset_import(), [](const auto &set) {
        return set.domain().empty() || set.domain() == "ai.onnx";
      }))
    return error(path_, ": says nothing of its opset: its opset_import lacks the default domain");
  return check(proto_.opset_import(), "");
}

const Branches *Model::branchesOf(const ::onnx::NodeProto &node) const {
  auto it = flat_.branches.find(&node);
  return it == flat_.branches.end() ? nullptr : &it->second;
}

std::optional<unsigned> Model::valueOf(const ::onnx::NodeProto &node) const {
  auto it = values_.find(&node);
  return it == values_.end() ? std::nullopt : std::optional<unsigned>(it->second);
}

Status Model::addTensors() {
  std::string problems;
  auto note = [&](Status s) {
    if (!s)
      problems += "\n  " + s.message();
  };
  for (const auto &[name, tensor] : flat_.initializers)
    note(addNamed(locate(name, *tensor)));
  for (const Node &node : flat_.nodes) {
    bool fills = node.op() == "ConstantOfShape";
    const auto *value = node.find("value");
    if ((!fills && node.op() != "Constant") || node.proto->output_size() != 1 || !value ||
        !value->has_t())
      continue;
    auto tensor = locate(node.proto->output(0), value->t());
    if (tensor)
      tensor->ofNode = true;
    if (!fills || !tensor) {
      note(addNamed(std::move(tensor)));
    } else {
      values_[node.proto] = stored_.size();
      stored_.push_back(std::move(*tensor));
    }
  }
  if (!problems.empty())
    return error(path_, ": tensors that cannot be read:", problems);
  return support::ok();
}

Status Model::addNamed(Result<StoredTensor> tensor) {
  if (!tensor)
    return tensor.takeError();
  if (!byName_.try_emplace(tensor->name, stored_.size()).second)
    return error("'", tensor->name, "' is stored twice");
  stored_.push_back(std::move(*tensor));
  return support::ok();
}

// Returns the number of values in the typed field of a tensor without raw data.
static int64_t heldValues(const TensorProto &proto, Element element) {
  switch (element) {
  case Element::F32:
    return proto.float_data_size();
  case Element::F64:
    return proto.double_data_size();
  case Element::I64:
    return proto.int64_data_size();
  case Element::U32:
  case Element::U64:
    return proto.uint64_data_size();
  default:
    // Elements of less than a byte are packed, one byte in each int32.
    return proto.int32_data_size() * std::max(1, 8 / bitWidth(element));
  }
}

// Returns the bits of element `i` of such a tensor; those above its width may be set.
static uint64_t heldBits(const TensorProto &proto, Element element, int64_t i) {
  switch (element) {
  case Element::F32:
    return std::bit_cast<uint32_t>(proto.float_data(i));
  case Element::F64:
    return std::bit_cast<uint64_t>(proto.double_data(i));
  case Element::I64:
    return proto.int64_data(i);
  case Element::U32:
  case Element::U64:
    return proto.uint64_data(i);
  default:
    int bits = bitWidth(element), packed = bits < 8 ? 8 / bits : 1;
    return static_cast<uint32_t>(proto.int32_data(i / packed)) >> (i % packed * bits);
  }
}

Result<StoredTensor> Model::locate(const std::string &name, const TensorProto &proto) {
  StoredTensor tensor;
  tensor.name = name;
  if (name.empty())
    return error("an initializer has no name");
  auto element = elementOf(proto.data_type());
  if (!element)
    return error("'", name, "': ", elementName(proto.data_type()),
                 " tensors are not supported: export as float32");
  tensor.element = *element;
  tensor.shape.assign(proto.dims().begin(), proto.dims().end());
  std::optional<int64_t> count = countElements(tensor.shape);
  if (!count)
    return error("'", name, "': impossible shape ", toText(tensor.shape));
  if (proto.data_location() == TensorProto::EXTERNAL) {
    if (Status s = locateExternal(proto, tensor); !s)
      return error("'", name, "': ", s.message());
  } else if (proto.has_raw_data()) {
    tensor.file = 0;
    tensor.bytes = rangeFromSkeleton(proto.raw_data());
  } else if (int64_t held = heldValues(proto, *element);
             held == *count || (bitWidth(*element) < 8 && held > *count && held < *count + 4)) {
    tensor.proto = &proto;
  } else {
    return error("'", name, "': shape ", toText(tensor.shape), " needs ", *count, " values, got ",
                 heldValues(proto, *element));
  }
  uint64_t needed = byteCount(*element, *count);
  if (tensor.file && tensor.bytes.size != needed)
    return error("'", name, "': shape ", toText(tensor.shape), " needs ", needed, " bytes, got ",
                 tensor.bytes.size);
  return tensor;
}

Status Model::locateExternal(const TensorProto &proto, StoredTensor &tensor) {
  auto place = resolveExternalData(path_, proto);
  if (!place)
    return place.takeError();
  auto it = std::find_if(files_.begin() + 1, files_.end(),
                         [&](const auto &file) { return file->path == place->path; });
  if (it == files_.end()) {
    auto map = support::MappedFile::open(place->path);
    if (!map)
      return map.takeError();
    files_.push_back(std::make_unique<DataFile>(DataFile{place->path, std::move(*map)}));
    it = std::prev(files_.end());
  }
  uint64_t size = (*it)->map.size();
  uint64_t needed = byteCount(tensor.element, tensor.count());
  uint64_t length = place->length.value_or(needed);
  if (place->offset > size || length > size - place->offset)
    return error("external data file '", place->path, "' has ", size, " bytes, needed are ",
                 length, " from byte ", place->offset, " (truncated?)");
  tensor.file = it - files_.begin();
  tensor.bytes = {place->offset, length};
  return support::ok();
}

const std::byte *Model::bytesOf(const StoredTensor &tensor) const {
  return tensor.file ? files_[*tensor.file]->map.bytes().data() + tensor.bytes.offset : nullptr;
}

// Returns the bits of element `i` of an array; those above its width may be set.
static uint64_t bitsAt(const std::byte *bytes, Element element, int64_t i) {
  int width = bitWidth(element);
  uint64_t bits = 0;
  if (width >= 8)
    std::memcpy(&bits, bytes + i * (width / 8), width / 8);
  else
    bits = static_cast<uint64_t>(bytes[i * width / 8]) >> (i * width % 8);
  return bits;
}

HostTensor Model::read(const StoredTensor &tensor) const {
  HostTensor out(tensor.element, tensor.shape);
  const std::byte *bytes = bytesOf(tensor);
  for (int64_t i = 0, n = out.size(); i < n; ++i) {
    uint64_t bits =
        bytes ? bitsAt(bytes, tensor.element, i) : heldBits(*tensor.proto, tensor.element, i);
    if (out.isFloat())
      out.floats[i] = floatOf(tensor.element, bits);
    else
      out.ints[i] = integerOf(tensor.element, bits);
  }
  return out;
}

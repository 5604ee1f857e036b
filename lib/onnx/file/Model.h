// Opens an ONNX file: its graph without weights, and the offsets of the weights in their files.
// Tested by test/import/Storage.cpp and Refusals.cpp, and test/fuzz/Onnx.cpp.
#ifndef LLMC_LIB_ONNX_FILE_MODEL_H
#define LLMC_LIB_ONNX_FILE_MODEL_H

#include "lib/onnx/file/Flatten.h"
#include "lib/onnx/file/HostTensor.h"
#include "lib/onnx/file/WireScan.h"
#include "lib/support/Error.h"
#include "lib/support/File.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "onnx-ml.pb.h"

namespace llmc::onnximport {

// Describes a stored tensor: an initializer of the graph or of a subgraph, or the value of a
// Constant or ConstantOfShape node (under the name of its output).
struct StoredTensor {
  std::string name;
  Element element = Element::F32;
  Shape shape;
  std::optional<unsigned> file;             // index into Model::files(), with `bytes`
  ByteRange bytes;                          // row-major, little-endian
  const ::onnx::TensorProto *proto = nullptr; // holds the values if `file` is unset
  bool ofNode = false;                      // the value of a node, not an initializer

  int64_t count() const { return *countElements(shape); }
  bool isFloat() const { return onnximport::isFloat(element); }
};

// Holds a file with weights, mapped into memory: the .onnx file (index 0) or external data.
struct DataFile {
  std::string path;
  support::MappedFile map;
};

// Represents an opened model; its parts refer to each other, so that it is not copied.
class Model {
public:
  // Opens a file and reads everything but weights. Fails with a message for the user, which
  // lists all tensors that are missing or of a wrong size.
  static support::Result<std::unique_ptr<Model>> open(llvm::StringRef path);

  const ::onnx::ModelProto &proto() const { return proto_; }
  const ::onnx::GraphProto &graph() const { return proto_.graph(); }
  // Returns the nodes, with functions and subgraphs flattened (lib/onnx/file/Flatten.h).
  llvm::ArrayRef<Node> nodes() const { return flat_.nodes; }
  // Returns the branches of an If, null for other nodes.
  const Branches *branchesOf(const ::onnx::NodeProto &node) const;
  const std::string &path() const { return path_; }
  llvm::ArrayRef<StoredTensor> stored() const { return stored_; }
  // Returns the index of the stored tensor of this name, if there is one.
  std::optional<unsigned> find(llvm::StringRef name) const;
  // Returns the index of the tensor in the attribute `value` of a ConstantOfShape node.
  std::optional<unsigned> valueOf(const ::onnx::NodeProto &node) const;
  llvm::ArrayRef<std::unique_ptr<DataFile>> files() const { return files_; }

  // Returns the elements in the mapped file, or null if they are not one array of a file.
  const std::byte *bytesOf(const StoredTensor &tensor) const;
  HostTensor read(const StoredTensor &tensor) const;

private:
  Model() = default;
  support::Status load(llvm::StringRef path);
  support::Status checkGraph();
  support::Status checkOpsets();
  support::Status addTensors();
  support::Result<StoredTensor> locate(const std::string &name, const ::onnx::TensorProto &proto);
  support::Status addNamed(support::Result<StoredTensor> tensor);
  support::Status locateExternal(const ::onnx::TensorProto &proto, StoredTensor &tensor);

  std::string path_;
  ::onnx::ModelProto proto_;
  FlatGraph flat_;
  std::vector<StoredTensor> stored_;
  llvm::StringMap<unsigned> byName_;
  std::map<const ::onnx::NodeProto *, unsigned> values_;
  std::vector<std::unique_ptr<DataFile>> files_;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_MODEL_H

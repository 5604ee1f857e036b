#include "lib/onnx/file/ExternalData.h"

#include "llvm/ADT/StringRef.h"

#include <filesystem>

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
namespace fs = std::filesystem;

static bool isInside(const fs::path &file, const fs::path &folder) {
  auto mismatch = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return mismatch.first == folder.end();
}

static llmc::support::Status readEntries(const ::onnx::TensorProto &tensor,
                                         ExternalLocation &place) {
  for (const auto &entry : tensor.external_data()) {
    llvm::StringRef value(entry.value());
    uint64_t number = 0;
    if (entry.key() == "location") {
      place.location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      if (value.getAsInteger(10, number) || number > (uint64_t(1) << 62))
        return error("external data: ", entry.key(), " must be a decimal number, got '",
                     entry.value(), "'");
      if (entry.key() == "offset")
        place.offset = number;
      else
        place.length = number;
    }
  }
  if (place.location.empty())
    return error("external data: no location is given");
  return llmc::support::ok();
}

llmc::support::Result<ExternalLocation>
llmc::onnximport::resolveExternalData(const std::string &modelPath,
                                      const ::onnx::TensorProto &tensor) {
  ExternalLocation place;
  if (auto s = readEntries(tensor, place); !s)
    return s.takeError();
  fs::path relative(place.location);
  bool climbs = std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end();
  if (relative.is_absolute() || climbs || place.location.find('\0') != std::string::npos)
    return error("external data must lie beside the model: location '", place.location,
                 "' leaves its folder");
  std::error_code code;
  fs::path model = fs::absolute(modelPath, code);
  fs::path named = model.parent_path() / relative;
  place.path = named.string();
  fs::path real = fs::canonical(named, code);
  if (code)
    return error("external data file '", place.path, "' is missing: put it beside the model");
  fs::path realFolder = fs::canonical(model.parent_path(), code);
  fs::path modelFolder = fs::canonical(model, code).parent_path();
  if (!isInside(real, realFolder) && !isInside(real, modelFolder))
    return error("external data must lie beside the model: '", place.path, "' is a link to '",
                 real.string(), "'");
  if (!fs::is_regular_file(real, code))
    return error("external data: '", place.path, "' is not a file");
  return place;
}

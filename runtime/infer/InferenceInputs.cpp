#include "runtime/infer/InferenceInputs.h"

#include "lib/planfile/Elements.h"
#include "lib/planfile/Inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::InputBindingT;
using planfile::InputDefault;
using planfile::ProgramT;
using support::ElementType;
using support::error;
using support::ok;
using support::Status;
using support::text;

namespace {

bool isFloat(DType type) { return type == DType::F32 || type == DType::F64; }

template <class T>
void put(std::byte *data, uint64_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof(T));
}

void storeFloat(DType type, std::byte *data, uint64_t index, double value) {
  if (type == DType::F64)
    put(data, index, value);
  else
    put(data, index, static_cast<float>(value));
}

// Stores `value`; returns false if the type cannot hold it.
bool storeInteger(DType type, std::byte *data, uint64_t index, int64_t value) {
  switch (type) {
  case DType::I64:
    put(data, index, value);
    return true;
  case DType::I32:
    put(data, index, static_cast<int32_t>(value));
    return value == static_cast<int32_t>(value);
  case DType::U8:
    put(data, index, static_cast<uint8_t>(value));
    return value == static_cast<uint8_t>(value);
  case DType::I1:
    put(data, index, static_cast<uint8_t>(value != 0));
    return value == 0 || value == 1;
  default:
    return false;
  }
}

// Returns "row 1, position 3", or "index [...]" unless there are two dims.
std::string placeOf(const std::vector<int64_t> &shape, uint64_t index) {
  if (shape.size() == 2)
    return text("row ", index / uint64_t(shape[1]), ", position ", index % uint64_t(shape[1]));
  std::vector<uint64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0; index /= uint64_t(shape[d]))
    at[d] = index % uint64_t(shape[d]);
  std::string place = "index [";
  for (size_t d = 0; d < at.size(); ++d)
    place += text(d ? ", " : "", at[d]);
  return place + "]";
}

// Returns element `index` of a file as an integer; nullopt if it is none, or out of range.
std::optional<int64_t> integerAt(const support::NpyFile &file, uint64_t index) {
  if (support::isInteger(file.type())) {
    int64_t value = support::readAsInteger(file.type(), file.data(), index);
    if (file.type() == ElementType::U64 && value < 0)
      return std::nullopt;
    return value;
  }
  double value = support::readAsDouble(file.type(), file.data(), index);
  constexpr double past = 9223372036854775808.0; // 2^63
  if (!(value >= -past && value < past) || value != std::floor(value))
    return std::nullopt;
  return static_cast<int64_t>(value);
}

std::string numberText(const support::NpyFile &file, uint64_t index) {
  if (support::isInteger(file.type()) && file.type() != ElementType::U64)
    return text(support::readAsInteger(file.type(), file.data(), index));
  return text(support::readAsDouble(file.type(), file.data(), index));
}

Status convertIntegers(const InputBindingT &input, const support::NpyFile &file,
                       std::vector<std::byte> &buffer) {
  uint64_t count = buffer.size() / planfile::byteSize(input.dtype);
  for (uint64_t i = 0; i < count; ++i) {
    std::optional<int64_t> value = integerAt(file, i);
    auto fail = [&](const std::string &why) {
      return error("--input ", input.name, ": ", numberText(file, i), " at ",
                   placeOf(input.global_shape, i), " of '", file.path(), "' ", why);
    };
    if (!value || !storeInteger(input.dtype, buffer.data(), i, *value))
      return fail(text("is no value of ", planfile::numpyName(input.dtype)));
    if (input.limit > 0 && (*value < 0 || *value >= input.limit))
      return fail(text("is outside of the ", input.limit, " rows of the table that it indexes"));
  }
  return ok();
}

// Permutes each row as permutedIndices() of the plan, so that every rank's part is a range.
void permute(const planfile::MeshT &mesh, const InputBindingT &input,
             std::vector<std::byte> &buffer) {
  std::vector<uint64_t> places = planfile::permutedIndices(mesh, input);
  if (places.empty() || buffer.empty())
    return;
  uint64_t size = planfile::byteSize(input.dtype);
  std::vector<std::byte> given = buffer;
  for (uint64_t i = 0; i < buffer.size() / size; ++i) {
    uint64_t at = i / places.size() * places.size() + places[i % places.size()];
    std::memcpy(&buffer[at * size], &given[i * size], size);
  }
}

std::string namesOf(const ProgramT &program) {
  std::string names;
  for (const auto &input : program.inputs)
    names += (names.empty() ? "" : ", ") + input->name;
  return names.empty() ? "no inputs" : names;
}

} // namespace

support::Result<InferenceInputs>
InferenceInputs::open(const ProgramT &program, const std::map<std::string, std::string> &files) {
  InferenceInputs inputs;
  std::vector<std::string> problems;
  for (const auto &[name, path] : files)
    if (std::none_of(program.inputs.begin(), program.inputs.end(),
                     [&, &name = name](const auto &input) { return input->name == name; }))
      problems.push_back(text("--input ", name, "=", path, ": no such input; this program has ",
                              namesOf(program)));
  for (const auto &input : program.inputs) {
    std::vector<std::byte> &buffer = inputs.buffers_.emplace_back(
        *support::elementCount(input->global_shape) * planfile::byteSize(input->dtype));
    auto given = files.find(input->name);
    Status status = given != files.end() ? inputs.read(*input, given->second, buffer)
                                         : inputs.useDefault(program, *input, buffer);
    if (!status)
      problems.push_back(status.message());
    permute(*program.mesh, *input, buffer);
    inputs.pointers_.push_back(buffer.data());
  }
  if (problems.empty())
    return inputs;
  if (problems.size() == 1)
    return error(problems[0]);
  std::string all = text(problems.size(), " problems with the inputs:");
  for (const std::string &problem : problems)
    all += "\n  " + problem;
  return error(all);
}

Status InferenceInputs::read(const InputBindingT &input, const std::string &path,
                             std::vector<std::byte> &buffer) {
  support::Result<support::NpyFile> opened = support::NpyFile::open(path);
  if (!opened)
    return error("--input ", input.name, ": ", opened.message());
  const support::NpyFile &file = *opened;
  if (file.shape() != input.global_shape)
    return error("--input ", input.name, ": '", path, "' has the shape ",
                 support::shapeText(file.shape()), ", the program was compiled for ",
                 support::shapeText(input.global_shape),
                 "; compile again with other --dim, or give that shape");
  notes_.push_back(text(input.name, "  ", path));
  // Copies bytes of an equal type, except bool, whose bytes may have any value.
  if (planfile::elementType(input.dtype) == file.type() && input.dtype != DType::I1 &&
      input.limit <= 0) {
    if (!buffer.empty())
      std::memcpy(buffer.data(), file.data(), buffer.size());
    return ok();
  }
  if (!isFloat(input.dtype))
    return convertIntegers(input, file, buffer);
  uint64_t count = buffer.size() / planfile::byteSize(input.dtype);
  for (uint64_t i = 0; i < count; ++i)
    storeFloat(input.dtype, buffer.data(), i,
               support::readAsDouble(file.type(), file.data(), i));
  return ok();
}

Status InferenceInputs::useDefault(const ProgramT &program, const InputBindingT &input,
                                   std::vector<std::byte> &buffer) {
  std::string give = text("; give --input ", input.name, "=FILE.npy, ",
                          planfile::numpyName(input.dtype), " ",
                          support::shapeText(input.global_shape));
  uint64_t count = buffer.size() / planfile::byteSize(input.dtype);
  if (count == 0) {
    notes_.push_back(input.name + "  empty");
    return ok();
  }
  if (input.default_value == InputDefault::Required)
    return error("no data for the input '", input.name, "'", give);
  // With a cache the first position is not 0 but the number of past tokens.
  bool positions = input.default_value == InputDefault::Positions;
  for (const auto &other : program.inputs)
    if (positions && isFloat(other->dtype) && *support::elementCount(other->global_shape) > 0)
      return error("the input '", input.name, "' counts from 0 only where no other input holds "
                   "past values, as '", other->name, "' does", give);
  bool ones = input.default_value == InputDefault::Ones;
  bool rowIds = input.default_value == InputDefault::RowIds;
  notes_.push_back(text(input.name, "  ",
                        ones ? "ones" : positions || rowIds ? "0, 1, ..." : "zeros",
                        " (not given)"));
  uint64_t last = input.global_shape.empty() ? 1 : uint64_t(input.global_shape.back());
  uint64_t row = input.global_shape.empty() ? 1 : count / uint64_t(input.global_shape[0]);
  for (uint64_t i = 0; i < count; ++i) {
    int64_t value = ones ? 1 : positions ? int64_t(i % last) : rowIds ? int64_t(i / row) : 0;
    if (isFloat(input.dtype))
      storeFloat(input.dtype, buffer.data(), i, double(value));
    else if (!storeInteger(input.dtype, buffer.data(), i, value))
      return error("the input '", input.name, "' has the type ", toString(input.dtype),
                   ", which cannot be fed");
  }
  return ok();
}

#include "runtime/Data.h"

#include "lib/planfile/Inputs.h"
#include "runtime/Random.h"

#include <algorithm>
#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::InputDefault;
using support::error;
using support::ok;
using support::shapeText;
using support::Status;
using support::text;

namespace {

constexpr std::string_view kIds = "input_ids", kLabels = "labels";
constexpr int64_t kIgnored = -100; // a label that counts for nothing
constexpr int64_t kLargestU16Vocabulary = 65536;

bool isIntegerInput(DType type) { return type == DType::I64 || type == DType::I32; }

void storeInteger(DType type, std::byte *data, uint64_t index, int64_t value) {
  if (type == DType::I64) {
    std::memcpy(data + index * 8, &value, 8);
  } else {
    int32_t narrow = static_cast<int32_t>(value);
    std::memcpy(data + index * 4, &narrow, 4);
  }
}

void storeReal(DType type, std::byte *data, uint64_t index, double value) {
  if (type == DType::F64) {
    std::memcpy(data + index * 8, &value, 8);
  } else {
    float narrow = static_cast<float>(value);
    std::memcpy(data + index * 4, &narrow, 4);
  }
}

} // namespace

support::Result<Data> Data::open(const planfile::ProgramT &program, const DataOptions &options) {
  Data data(program, options);
  data.idsInput_ = data.find(kIds);
  data.labelsInput_ = data.find(kLabels);
  data.arrays_.resize(program.inputs.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const planfile::InputBindingT &input = *program.inputs[i];
    if (!isIntegerInput(input.dtype) && input.dtype != DType::F32 && input.dtype != DType::F64)
      return error("input '", input.name, "' has the type ", toString(input.dtype),
                   ", which cannot be fed");
    data.shapes_.push_back(planfile::wholeShape(*program.mesh, input));
    data.places_.push_back(planfile::permutedPlaces(*program.mesh, input));
    data.buffers_.emplace_back(program.global_batch * data.elementsOfRow(i) *
                               planfile::byteSize(input.dtype));
    data.pointers_.push_back(data.buffers_.back().data());
    if (input.default_value != InputDefault::Required)
      data.fillDefault(i);
  }
  if (!options.tokens.empty())
    if (Status s = data.openTokens(options.tokens); !s)
      return s.takeError();
  if (Status s = data.openArrays(options.arrays); !s)
    return s.takeError();
  if (Status s = data.checkComplete(); !s)
    return s.takeError();
  return data;
}

int Data::find(std::string_view name) const {
  for (size_t i = 0; i < program_.inputs.size(); ++i)
    if (program_.inputs[i]->name == name)
      return static_cast<int>(i);
  return -1;
}

uint64_t Data::elementsOfRow(size_t input) const {
  const std::vector<int64_t> &shape = shapes_[input];
  uint64_t count = 1;
  for (size_t d = 1; d < shape.size(); ++d)
    count *= static_cast<uint64_t>(shape[d]);
  return count;
}

Status Data::openTokens(const std::string &path) {
  support::Result<support::MappedFile> file = support::MappedFile::open(path);
  if (!file)
    return file.takeError();
  if (idsInput_ < 0 || !isIntegerInput(program_.inputs[idsInput_]->dtype))
    return error("--data: this program has no input '", kIds, "'; give its inputs with --input");
  uint64_t seq = elementsOfRow(idsInput_);
  if (labelsInput_ >= 0 && elementsOfRow(labelsInput_) != seq)
    return error("--data: '", kIds, "' and '", kLabels, "' differ in length");
  tokenBytes_ = program_.model->vocabulary <= kLargestU16Vocabulary ? 2 : 4;
  uint64_t tokens = file->size() / tokenBytes_;
  if (file->size() % tokenBytes_ != 0)
    return error("'", path, "' has ", file->size(), " bytes, not a multiple of ", tokenBytes_,
                 ": a vocabulary of ", program_.model->vocabulary, " needs raw ",
                 tokenBytes_ == 2 ? "u16" : "u32", " tokens");
  rows_ = tokens > seq ? (tokens - 1) / seq : 0;
  if (rows_ < program_.global_batch)
    return error("'", path, "' holds ", tokens, " tokens, ", rows_, " rows of ", seq,
                 "; one step takes ", program_.global_batch, " rows, so at least ",
                 uint64_t(program_.global_batch) * seq + 1, " tokens are needed");
  tokens_ = std::move(*file);
  note_ = text(path, ": ", tokens, tokenBytes_ == 2 ? " u16" : " u32", " tokens, ", rows_,
               " rows of ", seq, ", ",
               shuffle_ ? text("each epoch permuted by seed ", seed_) : "in order");
  return ok();
}

Status Data::openArrays(const std::map<std::string, std::string> &arrays) {
  for (const auto &[name, path] : arrays) {
    int input = find(name);
    if (input < 0) {
      std::string names;
      for (const auto &one : program_.inputs)
        names += (names.empty() ? "" : ", ") + one->name;
      return error("--input ", name, "=", path, ": no such input; this program has: ", names);
    }
    if (tokens_ && (input == idsInput_ || input == labelsInput_))
      return error("--input ", name, ": --data gives it already");
    support::Result<support::NpyFile> file = support::NpyFile::open(path);
    if (!file)
      return file.takeError();
    const planfile::InputBindingT &binding = *program_.inputs[input];
    std::vector<int64_t> row = file->shape(), want = shapes_[input];
    bool good = row.size() == want.size() && std::equal(row.begin() + 1, row.end(), want.begin() + 1);
    if (!good) {
      want.erase(want.begin());
      return error("--input ", name, ": '", path, "' has the shape ", shapeText(row),
                   ", the program wants [N, ...] with rows of ", shapeText(want));
    }
    if (row[0] < static_cast<int64_t>(program_.global_batch))
      return error("--input ", name, ": '", path, "' has ", row[0], " rows, one step takes ",
                   program_.global_batch);
    if (isIntegerInput(binding.dtype) != support::isInteger(file->type()))
      return error("--input ", name, ": '", path, "' holds ", support::toString(file->type()),
                   ", the program wants ", toString(binding.dtype));
    note_ += text(note_.empty() ? "" : "; ", name, " from ", path, ", ", row[0],
                  " rows in order");
    arrays_[input] = std::make_unique<support::NpyFile>(std::move(*file));
  }
  return ok();
}

Status Data::checkComplete() const {
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    bool fromTokens = tokens_ && (int(i) == idsInput_ || int(i) == labelsInput_);
    if (!fromTokens && !arrays_[i] &&
        program_.inputs[i]->default_value == InputDefault::Required)
      return error("no data for the input '", program_.inputs[i]->name,
                   "'; give --data FILE or --input ", program_.inputs[i]->name, "=FILE.npy");
  }
  return ok();
}

void Data::fillDefault(size_t input) {
  const planfile::InputBindingT &binding = *program_.inputs[input];
  uint64_t last = static_cast<uint64_t>(shapes_[input].back()), row = elementsOfRow(input);
  for (uint64_t i = 0; i < program_.global_batch * row; ++i) {
    int64_t value = 0;
    if (binding.default_value == InputDefault::Ones)
      value = 1;
    else if (binding.default_value == InputDefault::Positions)
      value = int64_t(i % last);
    else if (binding.default_value == InputDefault::RowIds)
      value = int64_t(i / row);
    uint64_t at = target(input, i / row, i % row);
    if (isIntegerInput(binding.dtype))
      storeInteger(binding.dtype, buffers_[input].data(), at, value);
    else
      storeReal(binding.dtype, buffers_[input].data(), at, double(value));
  }
}

uint64_t Data::stepsOfEpoch() const {
  uint64_t rows = tokens_ ? rows_ : 0;
  for (const auto &array : arrays_)
    if (array && (rows == 0 || static_cast<uint64_t>(array->shape()[0]) < rows))
      rows = static_cast<uint64_t>(array->shape()[0]);
  return rows / program_.global_batch;
}

Status Data::load(uint64_t step) {
  for (uint64_t place = 0; place < program_.global_batch; ++place) {
    uint64_t sample = step * program_.global_batch + place;
    if (tokens_) {
      uint64_t epoch = sample / rows_, row = sample % rows_;
      if (shuffle_)
        row = permute(seed_, epoch, rows_, row);
      if (Status s = loadTokens(row, place); !s)
        return s;
    }
    for (size_t input = 0; input < arrays_.size(); ++input)
      if (arrays_[input]) {
        uint64_t row = sample % static_cast<uint64_t>(arrays_[input]->shape()[0]);
        if (Status s = loadArray(input, row, place); !s)
          return s;
      }
  }
  return ok();
}

Status Data::loadTokens(uint64_t row, uint64_t place) {
  uint64_t seq = elementsOfRow(idsInput_);
  const std::byte *at = tokens_->bytes().data() + row * seq * tokenBytes_;
  auto type = tokenBytes_ == 2 ? support::ElementType::U16 : support::ElementType::U32;
  for (uint64_t i = 0; i < seq; ++i) {
    if (Status s = store(idsInput_, row, place, i, support::readAsInteger(type, at, i)); !s)
      return s;
    if (labelsInput_ < 0)
      continue;
    int64_t label = support::readAsInteger(type, at, i + 1);
    if (Status s = store(labelsInput_, row, place, i, label); !s)
      return s;
  }
  return ok();
}

Status Data::loadArray(size_t input, uint64_t row, uint64_t place) {
  const planfile::InputBindingT &binding = *program_.inputs[input];
  const support::NpyFile &file = *arrays_[input];
  uint64_t count = elementsOfRow(input);
  for (uint64_t i = 0; i < count; ++i) {
    if (!isIntegerInput(binding.dtype)) {
      storeReal(binding.dtype, buffers_[input].data(), target(input, place, i),
                support::readAsDouble(file.type(), file.data(), row * count + i));
      continue;
    }
    int64_t value = support::readAsInteger(file.type(), file.data(), row * count + i);
    if (Status s = store(input, row, place, i, value); !s)
      return s;
  }
  return ok();
}

// Puts an integer into the batch; `row` is its row in the file, for the error.
Status Data::store(size_t input, uint64_t row, uint64_t place, uint64_t position,
                   int64_t token) {
  bool ids = int(input) == idsInput_, labels = int(input) == labelsInput_;
  int64_t vocabulary = program_.model->vocabulary;
  if ((ids || labels) && vocabulary > 0 && !(labels && token == kIgnored) &&
      (token < 0 || token >= vocabulary))
    return error("token ", token, " in '", program_.inputs[input]->name, "' at row ", row,
                 ", position ", position, " is outside of the vocabulary of ", vocabulary);
  storeInteger(program_.inputs[input]->dtype, buffers_[input].data(),
               target(input, place, position), token);
  return ok();
}

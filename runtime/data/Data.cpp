#include "runtime/data/Data.h"

#include "lib/planfile/Inputs.h"
#include "lib/support/Counted.h"
#include "lib/support/Dropout.h"
#include "runtime/states/Random.h"

#include <algorithm>
#include <cstring>
#include <set>

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
constexpr int64_t kIgnored = -100; // a label without loss

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
    data.permutation_.push_back(planfile::permutedIndices(*program.mesh, input));
    data.buffers_.emplace_back(program.global_batch * data.elementsOfRow(i) *
                               planfile::byteSize(input.dtype));
    data.pointers_.push_back(data.buffers_.back().data());
    if (input.default_value != InputDefault::Required)
      data.fillDefault(i);
  }
  if (!options.tokens.empty())
    if (Status s = data.openTokens(options); !s)
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

Status Data::openTokens(const DataOptions &options) {
  if (idsInput_ < 0)
    return error("--data: this program has no input '", kIds, "'; give its inputs with --input");
  TokenFormat format{elementsOfRow(idsInput_), program_.model->vocabulary, options.tokenType};
  if (labelsInput_ >= 0 && elementsOfRow(labelsInput_) != format.seq)
    return error("--data: '", kIds, "' and '", kLabels, "' differ in length");
  std::string problems;
  for (const DataFile &one : options.tokens) {
    support::Result<TokenFile> file = TokenFile::open(one.path, format);
    if (!file)
      problems += (problems.empty() ? "" : "; ") + file.message();
    else
      tokens_.push_back(std::make_unique<TokenFile>(std::move(*file)));
  }
  return problems.empty() ? mix(options.tokens) : Status(error(problems));
}

// Combines the open files. A single one must have enough rows for a step, each of several at
// least one.
Status Data::mix(const std::vector<DataFile> &files) {
  std::vector<Mixture::File> parts;
  double sum = 0;
  for (const DataFile &file : files)
    sum += file.weight;
  for (size_t i = 0; i < files.size(); ++i) {
    const TokenFile &file = *tokens_[i];
    uint64_t seq = elementsOfRow(idsInput_), least = files.size() == 1 ? program_.global_batch : 1;
    if (file.rows() < least)
      return error("'", file.path(), "' holds ", file.tokens(), " tokens, ", file.rows(),
                   " rows of ", seq, "; one step takes ", program_.global_batch,
                   " rows, so at least ", least * seq + 1, " tokens are needed");
    if (files[i].weight * double(Mixture::kBlock) < sum)
      return error("--data: the weight ", files[i].weight, " of '", files[i].path, "' is less than 1/",
                   Mixture::kBlock, " of their sum ", sum, "; leave the file out");
    parts.push_back({file.rows(), files[i].weight});
    note_ += text(i ? "\n           " : "", file.note());
    if (files.size() > 1)
      note_ += text(", ", files[i].weight / sum * 100, " % of the rows");
  }
  if (parts.size() > 1 && !shuffle_)
    return error("--no-shuffle is for one --data: rows of several files are mixed by drawing");
  note_ += shuffle_ ? text(", each epoch permuted by seed ", seed_) : ", in order";
  mixture_ = Mixture(std::move(parts), seed_, shuffle_);
  return ok();
}

support::Status Data::beginCheck(support::Progress &progress, double seconds) {
  if (tokens_.empty())
    return ok();
  std::vector<const TokenFile *> files;
  for (const auto &file : tokens_)
    files.push_back(file.get());
  check_ = std::make_unique<TokenCheck>(std::move(files), progress);
  return check_->wait(seconds);
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
    if (!tokens_.empty() && (input == idsInput_ || input == labelsInput_))
      return error("--input ", name, ": --data gives it already");
    support::Result<support::NpyFile> header = openArray(static_cast<size_t>(input), path);
    if (!header)
      return error("--input ", name, ": ", header.message());
    support::Result<support::ReadableFile> file = support::ReadableFile::open(path);
    if (!file)
      return file.takeError();
    note_ += text(note_.empty() ? "" : "; ", name, " from ", path, ", ", header->shape()[0],
                  " rows in order");
    arrays_[input] = std::make_unique<Array>(Array{std::move(*header), std::move(*file)});
  }
  return checkRowsAgree();
}

// Fails if the arrays differ in their number of rows: equal rows belong together.
Status Data::checkRowsAgree() const {
  std::string counts;
  std::set<int64_t> rows;
  for (size_t i = 0; i < arrays_.size(); ++i)
    if (arrays_[i]) {
      int64_t count = arrays_[i]->header.shape()[0];
      rows.insert(count);
      counts += text(counts.empty() ? "" : ", ", program_.inputs[i]->name, " has ",
                     support::counted(count, "row"));
    }
  return rows.size() < 2 ? ok() : Status(error("--input: the files do not belong together: ", counts));
}

support::Result<support::NpyFile> Data::openArray(size_t input, const std::string &path) const {
  support::Result<support::NpyFile> file = support::NpyFile::open(path);
  if (!file)
    return file.takeError();
  const planfile::InputBindingT &binding = *program_.inputs[input];
  std::vector<int64_t> row = file->shape(), want = shapes_[input];
  if (row.size() != want.size() || !std::equal(row.begin() + 1, row.end(), want.begin() + 1)) {
    want.erase(want.begin());
    return error("'", path, "' has the shape ", shapeText(row),
                 ", the program wants [N, ...] with rows of ", shapeText(want));
  }
  if (row[0] < static_cast<int64_t>(program_.global_batch))
    return error("'", path, "' has ", row[0], " rows, one step takes ", program_.global_batch);
  if (isIntegerInput(binding.dtype) != support::isInteger(file->type()))
    return error("'", path, "' holds ", support::toString(file->type()), ", the program wants ",
                 toString(binding.dtype));
  return file;
}

Status Data::checkComplete() const {
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    bool fromTokens = !tokens_.empty() && (int(i) == idsInput_ || int(i) == labelsInput_);
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
    else if (binding.default_value == InputDefault::DropoutKeys)
      value = support::kKeepAllKey;
    uint64_t at = target(input, i / row, i % row);
    if (isIntegerInput(binding.dtype))
      storeInteger(binding.dtype, buffers_[input].data(), at, value);
    else
      storeReal(binding.dtype, buffers_[input].data(), at, double(value));
  }
}

// Gives each row of the global batch its key of this step, whichever ranks take it.
void Data::fillDropoutKeys(size_t input, uint64_t step) {
  for (uint64_t place = 0; place < program_.global_batch; ++place)
    storeInteger(program_.inputs[input]->dtype, buffers_[input].data(), target(input, place, 0),
                 support::dropoutKey(seed_, step, place));
}

uint64_t Data::rows() const {
  uint64_t rows = 0;
  for (const auto &file : tokens_)
    rows += file->rows();
  for (const auto &array : arrays_)
    if (array && (rows == 0 || static_cast<uint64_t>(array->header.shape()[0]) < rows))
      rows = static_cast<uint64_t>(array->header.shape()[0]);
  return rows;
}

Status Data::load(uint64_t step) {
  if (check_)
    if (Status s = check_->poll(); !s)
      return s;
  for (size_t i = 0; drops_ && i < arrays_.size(); ++i)
    if (program_.inputs[i]->default_value == InputDefault::DropoutKeys && !arrays_[i])
      fillDropoutKeys(i, step);
  for (uint64_t place = 0; place < program_.global_batch; ++place) {
    uint64_t sample = step * program_.global_batch + place;
    if (!tokens_.empty())
      if (Status s = loadTokens(mixture_.at(sample), place); !s)
        return s;
    for (size_t input = 0; input < arrays_.size(); ++input)
      if (arrays_[input]) {
        uint64_t row = sample % static_cast<uint64_t>(arrays_[input]->header.shape()[0]);
        if (Status s = loadArray(input, row, place); !s)
          return s;
      }
  }
  return ok();
}

Status Data::loadTokens(Mixture::FileRow from, uint64_t place) {
  if (Status s = tokens_[from.file]->read(from.row, row_); !s)
    return s;
  auto put = [&](size_t input, size_t shift) {
    for (uint64_t i = 0; i + 1 < row_.size(); ++i)
      storeInteger(program_.inputs[input]->dtype, buffers_[input].data(), target(input, place, i),
                   row_[i + shift]);
  };
  put(static_cast<size_t>(idsInput_), 0);
  if (labelsInput_ >= 0)
    put(static_cast<size_t>(labelsInput_), 1);
  return ok();
}

Status Data::loadArray(size_t input, uint64_t row, uint64_t place) {
  const planfile::InputBindingT &binding = *program_.inputs[input];
  const Array &array = *arrays_[input];
  support::ElementType type = array.header.type();
  uint64_t count = elementsOfRow(input), size = count * support::byteSize(type);
  rowBytes_.resize(size);
  if (array.header.turned())
    std::memcpy(rowBytes_.data(), static_cast<const std::byte *>(array.header.data()) + row * size, size);
  else if (Status s = array.file.read(array.header.offset() + row * size, rowBytes_.data(), size); !s)
    return s;
  for (uint64_t i = 0; i < count; ++i) {
    if (!isIntegerInput(binding.dtype)) {
      storeReal(binding.dtype, buffers_[input].data(), target(input, place, i),
                support::readAsDouble(type, rowBytes_.data(), i));
      continue;
    }
    int64_t value = support::readAsInteger(type, rowBytes_.data(), i);
    if (Status s = store(input, row, place, i, value); !s)
      return s;
  }
  return ok();
}

// Stores an integer in the batch; `row` is its row in the file, for the error.
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

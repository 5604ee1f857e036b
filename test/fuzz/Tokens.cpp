// The data of a training run: a token file, a pair of Megatron's, a mixture, or an array for
// each input. Input: u32 vocabulary, u8 seq, u8 rows a step, u8 kind and order, the file.
#include "Fuzz.h"
#include "runtime/data/Data.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

using namespace llmc;

static planfile::ProgramT makeProgram(int64_t vocabulary, int64_t seq, uint32_t rows) {
  planfile::ProgramT program;
  program.model = std::make_unique<planfile::ModelInfoT>();
  program.model->vocabulary = vocabulary;
  program.mesh = std::make_unique<planfile::MeshT>();
  program.micro_batch = 1;
  program.micro_batches = program.global_batch = rows;
  for (const char *name : {"input_ids", "labels", "attention_mask"}) {
    auto input = std::make_unique<planfile::InputBindingT>();
    input->name = name;
    input->dtype = name[0] == 'a'   ? planfile::DType::F32
                   : name[0] == 'l' ? planfile::DType::I32
                                    : planfile::DType::I64;
    input->local_shape = {1, seq};
    if (name[0] == 'a')
      input->default_value = planfile::InputDefault::Ones;
    program.inputs.push_back(std::move(input));
  }
  return program;
}

// PREFIX.idx and PREFIX.bin, both of which are the file at `path`.
static const std::string &pairOf(const std::string &path) {
  static std::string prefix = [&] {
    std::string folder = std::filesystem::temp_directory_path() / "llmc-fuzz-XXXXXX";
    if (!::mkdtemp(folder.data()))
      std::abort();
    for (const char *end : {"/c.idx", "/c.bin"})
      std::filesystem::create_symlink(path, folder + end);
    static std::string made = folder;
    std::atexit([] { std::filesystem::remove_all(made); });
    return folder + "/c";
  }();
  return prefix;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view bytes = test::view(data, size);
  int64_t vocabulary = test::take<uint32_t>(bytes);
  int64_t seq = 1 + test::take<uint8_t>(bytes) % 16;
  uint32_t rows = 1 + test::take<uint8_t>(bytes) % 8;
  unsigned flags = test::take<uint8_t>(bytes);
  planfile::ProgramT program = makeProgram(vocabulary, seq, rows);
  runtime::DataOptions options;
  const std::string &path = test::fileWith(bytes);
  options.shuffle = flags & 1;
  options.seed = flags;
  if (flags & 2)
    options.arrays = {{"input_ids", path}, {"labels", path}};
  else
    options.tokens = {{flags & 8 ? pairOf(path) : path, 1}};
  if (flags & 16)
    options.tokenType = support::ElementType::U32;
  if (flags & 32 && !options.tokens.empty())
    options.tokens.push_back({path, 3});
  if (flags & 4)
    options.arrays["attention_mask"] = path;
  auto opened = runtime::Data::open(program, options);
  if (!opened)
    return 0;
  std::ostringstream out;
  support::Progress progress(out, false, support::Verbosity::Quiet);
  (void)bool(opened->beginCheck(progress, 60));
  uint64_t steps = opened->stepsOfEpoch() + 1;
  for (uint64_t step = 0; step < steps && step < 64; ++step)
    if (!opened->load(step))
      break;
  return 0;
}

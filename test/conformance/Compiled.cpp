#include "Compiled.h"

#include "lib/support/Npy.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/xxhash.h"

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace llmc;
using namespace llmc::test;
using namespace llmc::onnximport;
using llmc::support::ElementType;
using llmc::support::error;
using llmc::support::Status;
namespace fs = std::filesystem;

namespace {

// The type of the program's arrays for a type of the file.
ElementType heldAs(Element element) {
  return isFloat(element)           ? ElementType::F32
         : element == Element::Bool ? ElementType::Bool
                                    : ElementType::I64;
}

Status writeInput(const fs::path &path, const HostTensor &tensor) {
  std::vector<std::byte> bytes;
  auto append = [&](const auto &value) {
    auto *data = reinterpret_cast<const std::byte *>(&value);
    bytes.insert(bytes.end(), data, data + sizeof(value));
  };
  ElementType type = heldAs(tensor.element);
  for (int64_t i = 0, n = tensor.size(); i < n; ++i)
    if (type == ElementType::F32)
      append(static_cast<float>(tensor.floats[i]));
    else if (type == ElementType::Bool)
      append(static_cast<uint8_t>(tensor.ints[i] != 0));
    else
      append(tensor.ints[i]);
  return support::writeNpy(path.string(), type,
                           std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()), bytes);
}

// Runs a program; the error is the last line that it printed.
Status execute(const std::vector<std::string> &command, const fs::path &log) {
  std::vector<llvm::StringRef> words(command.begin(), command.end());
  std::string file = log.string(), problem;
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(file),
                                                llvm::StringRef(file)};
  int code = llvm::sys::ExecuteAndWait(words[0], words, std::nullopt, redirects, 120, 0, &problem);
  if (code == 0)
    return support::ok();
  std::string last = problem;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    last = line.empty() ? last : line;
  return error(fs::path(command[0]).filename().string(), " exits with ", code, ": ", last);
}

// The file of an output; characters that a file name cannot have are replaced.
std::string fileOf(std::string name) {
  for (char &c : name)
    if (c == '/' || c == '\\' || c == ':')
      c = '_';
  return name + ".npy";
}

Status compareOutput(const fs::path &path, const HostTensor &expected) {
  auto file = support::NpyFile::open(path.string());
  if (!file)
    return file.takeError();
  std::vector<double> got(expected.size());
  if (support::elementCount(file->shape()) != got.size())
    return error("has shape ", toText(file->shape()), ", expected ", toText(expected.shape));
  for (size_t i = 0; i < got.size(); ++i)
    got[i] = support::readAsDouble(file->type(), file->data(), i);
  std::string difference = compare(expected, file->shape(), got);
  return difference.empty() ? support::ok() : Status(error(difference));
}

Status compileAndRun(const NodeCase &test, const Tools &tools, const fs::path &folder) {
  fs::create_directories(folder / "out");
  {
    std::ofstream model(folder / "case.onnx", std::ios::binary);
    test.model.SerializeToOstream(&model);
  }
  std::string program = (folder / "program").string();
  if (Status s = execute({tools.compiler, "compile", (folder / "case.onnx").string(), "--infer",
                          "-o", program},
                         folder / "log");
      !s)
    return s;
  std::vector<std::string> command{program, "--output", (folder / "out").string(), "--workers",
                                   "1", "--threads", "1"};
  const auto &graph = test.model.graph();
  for (int i = 0; i < graph.input_size(); ++i) {
    fs::path path = folder / ("input" + std::to_string(i) + ".npy");
    if (Status s = writeInput(path, test.inputs[i]); !s)
      return s;
    command.push_back("--input");
    command.push_back(graph.input(i).name() + "=" + path.string());
  }
  if (Status s = execute(command, folder / "log"); !s)
    return s;
  for (int i = 0; i < graph.output_size(); ++i)
    if (Status s = compareOutput(folder / "out" / fileOf(graph.output(i).name()), test.outputs[i]);
        !s)
      return error("output ", i, " ", s.message());
  return support::ok();
}

Status runOne(const std::string &path, const Tools &tools) {
  auto [test, problem] = readCase(path);
  if (!problem.empty())
    return error(problem);
  fs::path folder = fs::path(tools.folder) / test.name;
  Status status = compileAndRun(test, tools, folder);
  if (!status && bakeShapes(test) != 0)
    status = compileAndRun(test, tools, folder);
  std::error_code code;
  fs::remove_all(folder, code);
  return status;
}

} // namespace

std::pair<int, int> llmc::test::runCompiled(const std::map<std::string, std::string> &paths,
                                            const std::set<std::string> &passed, int count,
                                            uint64_t seed, const Tools &tools) {
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const std::string &name : passed)
    if (paths.count(name))
      order.emplace_back(llvm::xxh3_64bits(std::to_string(seed) + name), name);
  std::sort(order.begin(), order.end());
  order.resize(std::min<size_t>(order.size(), count));
  std::vector<Status> results(order.size());
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(2));
  for (size_t i = 0; i < order.size(); ++i)
    pool.async([&, i] { results[i] = runOne(paths.at(order[i].second), tools); });
  pool.wait();
  int failed = 0;
  for (size_t i = 0; i < order.size(); ++i)
    if (!results[i]) {
      std::printf("COMPILED    %s: %s\n", order[i].second.c_str(), results[i].message().c_str());
      ++failed;
    }
  std::error_code code;
  fs::remove_all(tools.folder, code);
  return {static_cast<int>(order.size()) - failed, failed};
}

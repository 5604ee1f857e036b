// llmc-node-cases FOLDER... [--list FILE [--update]] [--only TEXT] [--verbose]
//                 [--kernels N --seed S]
// Runs ONNX's node tests: import, evaluate, compare; and again with all inputs as
// constants, which the importer folds. A line for each case that is wrong, then how many of
// each class of ops passed, are wrong, refused with a reason, or of ops that are not known.
// All must pass or, with a list of names, those on it and those of the classes must and
// should; none may be wrong. With --kernels, N of them also run as compiled programs.
#include "Classes.h"
#include "Compiled.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>

using namespace llmc::test;

namespace {

struct Arguments {
  std::vector<std::string> folders;
  std::string list, only;
  bool update = false, verbose = false;
  int kernels = 0;
  uint64_t seed = 1;
};

bool parse(int argc, char **argv, Arguments &out) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--update")
      out.update = true;
    else if (word == "--verbose")
      out.verbose = true;
    else if ((word == "--list" || word == "--only") && i + 1 < argc)
      (word == "--list" ? out.list : out.only) = argv[++i];
    else if (word == "--kernels" && i + 1 < argc)
      out.kernels = std::atoi(argv[++i]);
    else if (word == "--seed" && i + 1 < argc)
      out.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (word.rfind("--", 0) == 0)
      return false;
    else
      out.folders.push_back(word);
  }
  return !out.folders.empty();
}

bool passes(const Judged &judged) {
  return judged.verdict == Verdict::Passed || judged.verdict == Verdict::Baked;
}

std::string oneLine(std::string text) {
  for (char &c : text)
    c = c == '\n' ? ' ' : c;
  return text;
}

void print(const Judged &judged, bool verbose) {
  const char *words[] = {"passed", "baked", "WRONG", "refused", "unsupported"};
  bool needed = classOf(judged.ops) != Class::Other && !passes(judged);
  if (verbose || needed || judged.verdict == Verdict::Wrong)
    std::printf("%-11s %s%s%s\n", words[static_cast<int>(judged.verdict)], judged.name.c_str(),
                judged.reason.empty() || passes(judged) ? "" : ": ",
                passes(judged) ? "" : oneLine(judged.reason).c_str());
  if (!judged.folding.empty())
    std::printf("%-11s %s: %s\n", "FOLDING", judged.name.c_str(), oneLine(judged.folding).c_str());
}

void printTable(const std::vector<Judged> &all) {
  std::map<Class, std::array<int, 5>> counts;
  std::array<int, 5> total{};
  for (const Judged &judged : all) {
    int place = static_cast<int>(judged.verdict);
    ++counts[classOf(judged.ops)][place];
    ++total[place];
  }
  std::printf("%-24s %8s %8s %8s %8s %8s %8s %12s\n", "ops", "cases", "passed", "plain", "baked",
              "wrong", "refused", "unsupported");
  auto row = [](const char *name, const std::array<int, 5> &n) {
    std::printf("%-24s %8d %8d %8d %8d %8d %8d %12d\n", name, n[0] + n[1] + n[2] + n[3] + n[4],
                n[0] + n[1], n[0], n[1], n[2], n[3], n[4]);
  };
  row("must", counts[Class::Must]);
  row("should", counts[Class::Should]);
  row("others", counts[Class::Other]);
  row("all", total);
}

std::set<std::string> namesIn(const std::string &path) {
  std::set<std::string> names;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#')
      names.insert(line);
  return names;
}

bool writeList(const std::string &path, const std::set<std::string> &names) {
  std::ofstream out(path);
  for (const std::string &name : names)
    out << name << "\n";
  return bool(out);
}

// Prints what was lost and gained; returns how many were lost.
int compareLists(const std::set<std::string> &expected, const std::set<std::string> &passed) {
  int lost = 0;
  for (const std::string &name : expected)
    if (!passed.count(name)) {
      std::printf("LOST        %s\n", name.c_str());
      ++lost;
    }
  for (const std::string &name : passed)
    if (!expected.count(name))
      std::printf("gained      %s (write it down with --update)\n", name.c_str());
  return lost;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr, "usage: llmc-node-cases FOLDER... [--list FILE [--update]] [--only TEXT] "
                         "[--verbose] [--kernels N --seed S]\n");
    return 2;
  }
  std::vector<Judged> all;
  std::map<std::string, std::string> paths;
  for (const std::string &root : arguments.folders)
    for (const std::string &folder : casesIn(root)) {
      if (folder.find(arguments.only) == std::string::npos)
        continue;
      all.push_back(judge(folder));
      print(all.back(), arguments.verbose);
      paths[all.back().name] = folder;
      std::fflush(stdout);
    }
  printTable(all);
  std::set<std::string> passed;
  for (const Judged &judged : all)
    if (passes(judged) && judged.folding.empty())
      passed.insert(judged.name);
  if (arguments.update)
    return writeList(arguments.list, passed) ? 0 : 1;
  std::set<std::string> expected;
  if (!arguments.list.empty())
    expected = namesIn(arguments.list);
  for (const Judged &judged : all)
    if (arguments.list.empty() || classOf(judged.ops) != Class::Other)
      expected.insert(judged.name);
  int lost = compareLists(expected, passed);
  int good = expected.size() - lost;
  for (const Judged &judged : all) // of the others none is wrong
    lost += judged.verdict == Verdict::Wrong && !expected.count(judged.name);
  if (arguments.kernels) {
    namespace fs = std::filesystem;
    fs::path folder = fs::temp_directory_path() / ("llmc-cases-" + std::to_string(::getpid()));
    Tools tools{(fs::path(argv[0]).parent_path() / "llmc").string(), folder.string()};
    if (!fs::exists(tools.compiler)) {
      std::fprintf(stderr, "llmc-node-cases: error: --kernels needs %s\n", tools.compiler.c_str());
      return 2;
    }
    auto [ran, broken] = runCompiled(paths, passed, arguments.kernels, arguments.seed, tools);
    std::printf("compiled: %d of %d\n", ran, ran + broken);
    good += ran;
    lost += broken;
  }
  std::printf("%d passed, %d failed\n", good, lost);
  return lost != 0;
}

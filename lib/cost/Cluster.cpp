#include "lib/cost/Cluster.h"

#include "lib/support/File.h"
#include "lib/support/Json.h"
#include "lib/support/Nearest.h"
#include "lib/support/FlagSetters.h"

#include <algorithm>
#include <functional>

using namespace llmc;
using namespace llmc::cost;
using llmc::support::error;
using llmc::support::Json;
using llmc::support::realText;
using llmc::support::text;

namespace {

#include "lib/cost/Clusters.inc" // kClusters: {name, text of the file}

// Describes one number of a cluster file: its key says the unit, its bounds catch numbers in another one.
template <class T> struct Number {
  const char *key;
  T *field;
  double scale;      // from the key's unit to the field's
  double least, end; // in the key's unit; both are valid
  bool needed = true;
};

using Numbers = std::vector<Number<double>>;

Numbers deviceNumbers(Cluster &c) {
  return {{"peak_tflops_fp32", &c.peakFp32, 1e12, 1e-3, 1e5},
          {"peak_tflops_16", &c.peak16, 1e12, 1e-3, 1e5},
          {"peak_tflops_fp8", &c.peakFp8, 1e12, 1e-3, 1e5, false},
          {"memory_gib", &c.memoryBytes, double(1 << 30), 0.1, 1e5},
          {"memory_gbytes_per_s", &c.memoryBandwidth, 1e9, 1, 1e6},
          {"board_watts", &c.watts, 1, 1, 1e5, false},
          {"nvlink_gbytes_per_s", &c.nvlink, 1e9, 0.1, 1e5},
          {"nic_gbytes_per_s", &c.nic, 1e9, 0.01, 1e4},
          {"pcie_gbytes_per_s", &c.pcie, 1e9, 0.1, 1e4, false},
          {"link_latency_us", &c.linkLatency, 1e-6, 0, 1e5, false},
          {"nic_latency_us", &c.nicLatency, 1e-6, 0, 1e6, false}};
}

std::vector<Number<int64_t>> countNumbers(Cluster &c) {
  return {{"gpus", &c.gpus, 1, 1, 1e7, false},
          {"gpus_per_node", &c.gpusPerNode, 1, 1, 4096},
          {"nvlink_domain", &c.nvlinkDomain, 1, 1, 4096, false},
          {"multiprocessors", &c.multiprocessors, 1, 1, 1e5}};
}

Numbers collectiveNumbers(CollectiveCurve &c) {
  return {{"start_us", &c.start, 1e-6, 0, 1e6},
          {"per_rank_us", &c.perRank, 1e-6, -1e3, 1e6},
          {"ramp_bytes", &c.ramp, 1, 0, 1e12},
          {"ramp_length_bytes", &c.rampLength, 1, 1, 1e12},
          {"efficiency", &c.efficiency, 1, 0.01, 1.2},
          {"exponent", &c.exponent, 1, -2, 2}};
}

// Reads the numbers of one object of a file; collects all that is wrong with it.
class Reader {
public:
  explicit Reader(std::vector<std::string> &problems) : problems_(problems) {}

  template <class T> void numbers(const Json &object, const std::string &path, const std::vector<Number<T>> &list) {
    for (const Number<T> &number : list) {
      auto found = object.find(number.key);
      if (found == object.end()) {
        if (number.needed)
          problems_.push_back(text("\"", path, number.key, "\" is missing; ", valid(number)));
        continue;
      }
      if (!found->is_number() || !(found->template get<double>() >= number.least) ||
          !(found->template get<double>() <= number.end) ||
          (std::is_integral_v<T> && !found->is_number_integer())) {
        problems_.push_back(text("\"", path, number.key, "\" is ", found->dump(), "; ", valid(number)));
        continue;
      }
      *number.field = static_cast<T>(found->template get<double>() * number.scale);
    }
  }

  // Refuses keys that nothing reads: a misspelt one would leave a default behind.
  void keys(const Json &object, const std::string &path, std::vector<std::string> known) {
    for (const auto &[key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        std::string guess = support::didYouMean(key, known);
        problems_.push_back(text("\"", path, key, "\" is not known", guess.empty() ? text("; valid are ", joined(known)) : guess));
      }
  }

  // Returns the member if it is an object; null otherwise, which is a problem if the key is there.
  const Json *object(const Json &parent, const std::string &path, const char *key) {
    auto found = parent.find(key);
    if (found == parent.end())
      return nullptr;
    if (!found->is_object()) {
      problems_.push_back(text("\"", path, key, "\" is ", found->dump().substr(0, 40), "; an object is valid"));
      return nullptr;
    }
    return &*found;
  }

  static std::string joined(const std::vector<std::string> &names) {
    std::string all;
    for (const std::string &name : names)
      all += (all.empty() ? "" : ", ") + name;
    return all;
  }

private:
  template <class T> static std::string valid(const Number<T> &number) {
    return text(std::is_integral_v<T> ? "whole numbers from " : "numbers from ", realText(number.least), " to ",
                realText(number.end), " are valid (the key says the unit)");
  }

  std::vector<std::string> &problems_;
};

template <class T> std::vector<std::string> keysOf(const std::vector<Number<T>> &numbers) {
  std::vector<std::string> keys;
  for (const Number<T> &number : numbers)
    keys.push_back(number.key);
  return keys;
}

// Reads the curves, each of which may be left out: those of the base remain.
void readCurves(Reader &reader, const Json &curves, Cluster &c) {
  ProductCurve &p = c.product;
  AttentionCurve &a = c.attention;
  const std::pair<const char *, Numbers> all[] = {
      {"product",
       {{"start_us", &p.start, 1e-6, 0, 1e6},
        {"efficiency", &p.efficiency, 1, 0.01, 1.2},
        {"depth", &p.depth, 1, 0, 1e6},
        {"efficiency_fp8", &p.efficiency8, 1, 0.01, 1.2, false},
        {"depth_fp8", &p.depth8, 1, 0, 1e6, false},
        {"waves", &p.waves, 1, 0, 1},
        {"memory", &p.memory, 1, 0.01, 1.5},
        {"walk_ns", &p.walk, 1e-9, 0, 1e6},
        {"walk_most", &p.walkMost, 1, 0, 1e9}}},
      {"attention",
       {{"start_us", &a.start, 1e-6, 0, 1e6},
        {"walk_ns", &a.walk, 1e-9, 0, 1e6},
        {"memory", &a.memory, 1, 0, 100},
        {"efficiency_64", &a.efficiency[0], 1, 0.001, 1.2},
        {"efficiency_128", &a.efficiency[1], 1, 0.001, 1.2},
        {"efficiency_256", &a.efficiency[2], 1, 0.001, 1.2},
        {"tokens_64", &a.tokens[0], 1, 0, 1e6},
        {"tokens_128", &a.tokens[1], 1, 0, 1e6},
        {"tokens_256", &a.tokens[2], 1, 0, 1e6}}},
      {"all_reduce", collectiveNumbers(c.allReduce)},
      {"all_gather", collectiveNumbers(c.allGather)},
      {"reduce_scatter", collectiveNumbers(c.reduceScatter)},
      {"all_to_all", collectiveNumbers(c.allToAll)},
      {"switch_reduce", collectiveNumbers(c.switchReduce)}};
  std::vector<std::string> known = {"grouped"};
  for (const auto &[name, numbers] : all) {
    known.push_back(name);
    if (const Json *object = reader.object(curves, "curves.", name)) {
      std::string path = std::string("curves.") + name + ".";
      reader.keys(*object, path, keysOf(numbers));
      reader.numbers(*object, path, numbers);
    }
  }
  reader.numbers(curves, "curves.", Numbers{{"grouped", &c.grouped, 1, 0.5, 10, false}});
  reader.keys(curves, "curves.", known);
}

constexpr std::pair<const char *, Generation> kGenerations[] = {{"cpu", Generation::Cpu},
                                                                {"ampere", Generation::Ampere},
                                                                {"hopper", Generation::Hopper},
                                                                {"blackwell", Generation::Blackwell}};

void readGeneration(const Json &json, Cluster &c, std::vector<std::string> &problems) {
  auto found = json.find("generation");
  if (found == json.end())
    return;
  for (auto [name, generation] : kGenerations)
    if (*found == name) {
      c.generation = generation;
      return;
    }
  problems.push_back(text("\"generation\" is ", found->dump(), "; cpu, ampere, hopper and blackwell are valid"));
}

// Returns whether text can be printed as it is.
bool isPlain(const std::string &text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(), [](unsigned char letter) { return letter >= 32 && letter < 127; });
}

// Finds the text of a built-in file; null if there is none of that name.
const char *builtIn(std::string_view name) {
  for (const auto &[known, text] : kClusters)
    if (name == known)
      return text;
  return nullptr;
}

llmc::support::Result<Cluster> parse(const std::string &content, const std::string &file, int depth = 0);

// Starts from the accelerator that the file names as its base, if it does: it then needs to say only what differs.
bool readBase(const Json &json, const std::string &file, int depth, Cluster &c, std::vector<std::string> &problems) {
  auto found = json.find("base");
  if (found == json.end())
    return false;
  const char *base = found->is_string() ? builtIn(found->get<std::string>()) : nullptr;
  if (!base || depth > 2) {
    std::string got = found->dump();
    problems.push_back(text("\"base\" is ", got, "; ", Reader::joined(gpuNames()), " are valid"));
    return true;
  }
  auto cluster = parse(base, found->get<std::string>(), depth + 1);
  if (cluster)
    c = *cluster;
  return true;
}

llmc::support::Result<Cluster> parse(const std::string &content, const std::string &file, int depth) {
  auto json = llmc::support::parseJson(content, file);
  if (!json)
    return json.takeError();
  if (!json->is_object())
    return error(file, ": expected a JSON object");
  Cluster c;
  std::vector<std::string> problems;
  bool hasBase = readBase(*json, file, depth, c, problems);
  Reader reader(problems);
  Numbers numbers = deviceNumbers(c);
  auto counts = countNumbers(c);
  if (hasBase) {
    for (auto &number : numbers)
      number.needed = false;
    for (auto &number : counts)
      number.needed = false;
  }
  std::vector<std::string> known = {"name", "base", "generation", "sources", "curves", "host"};
  for (const auto &keys : {keysOf(numbers), keysOf(counts)})
    known.insert(known.end(), keys.begin(), keys.end());
  reader.keys(*json, "", known);
  reader.numbers(*json, "", numbers);
  reader.numbers(*json, "", counts);
  readGeneration(*json, c, problems);
  if (problems.empty() && c.memoryBytes > 0 && usableMemory(c) <= 0)
    problems.push_back(text("\"memory_gib\" is ", c.memoryBytes / (1 << 30), ", of which its runtime keeps 1 for itself; an accelerator "
                            "has more"));
  if (auto name = json->find("name"); name == json->end())
    c.name = file;
  else if (!name->is_string() || !isPlain(name->get<std::string>()))
    problems.push_back("\"name\" is no text of 1 to 64 printable ASCII letters");
  else
    c.name = name->get<std::string>();
  if (auto sources = json->find("sources"); sources != json->end() && sources->is_array())
    for (const Json &source : *sources)
      if (source.is_string())
        c.sources.push_back(source.get<std::string>());
  if (const Json *curves = reader.object(*json, "", "curves"))
    readCurves(reader, *curves, c);
  if (const Json *host = reader.object(*json, "", "host"))
    c.host = readHost(*host, problems);
  if (!c.nvlinkDomain)
    c.nvlinkDomain = c.gpusPerNode;
  // Takes the power limit of the accelerator whose curves these are for the rated one.
  if (!hasBase || !c.ratedWatts)
    c.ratedWatts = c.watts;
  if (problems.empty())
    return c;
  std::string all;
  for (const std::string &problem : problems)
    all += (all.empty() ? "" : "\n  ") + problem;
  return error(file, ": the cluster is not valid:", problems.size() > 1 ? "\n  " : " ", all);
}

} // namespace

double llmc::cost::usableMemory(const Cluster &cluster) {
  return cluster.generation == Generation::Cpu ? cluster.memoryBytes : cluster.memoryBytes - double(1 << 30);
}

std::vector<std::string> llmc::cost::gpuNames() {
  std::vector<std::string> names;
  for (const auto &[name, text] : kClusters)
    names.push_back(name);
  return names;
}

llmc::support::Result<Cluster> llmc::cost::findGpu(std::string_view name) {
  if (const char *content = builtIn(name))
    return parse(content, std::string(name));
  std::string guess = support::didYouMean(name, gpuNames());
  return error("--gpu ", name, ": is not known", guess, "; valid are ", Reader::joined(gpuNames()),
               ", or --cluster FILE");
}

llmc::support::Result<Cluster> llmc::cost::readCluster(const std::string &file) {
  auto content = support::readFile(file);
  if (!content)
    return content.takeError();
  return parse(*content, file);
}

#include "lib/cost/Host.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::cost;
using support::Json;
using support::OrderedJson;
using support::text;

double ProductGrid::timeOf(double rows, double columns, double depth) const {
  const size_t n = sizes.size();
  const double of[3] = {rows, columns, depth};
  size_t low[3];
  double share[3], inside[3];
  for (int d = 0; d < 3; ++d) {
    // Stays inside the grid; the rest is in proportion to the FLOPs.
    inside[d] = std::clamp(of[d], sizes.front(), sizes.back());
    size_t at = size_t(std::upper_bound(sizes.begin(), sizes.end(), inside[d]) - sizes.begin());
    low[d] = std::min(std::max<size_t>(at, 1) - 1, n - 2);
    share[d] = std::log(inside[d] / sizes[low[d]]) / std::log(sizes[low[d] + 1] / sizes[low[d]]);
  }
  double sum = 0; // of log(seconds)
  for (int corner = 0; corner < 8; ++corner) {
    size_t at = 0;
    double weight = 1;
    for (int d = 0; d < 3; ++d) {
      bool high = corner >> d & 1;
      at = at * n + low[d] + high;
      weight *= high ? share[d] : 1 - share[d];
    }
    sum += weight * std::log(seconds[at]);
  }
  double time = std::exp(sum);
  for (int d = 0; d < 3; ++d)
    if (of[d] > inside[d])
      time *= of[d] / inside[d];
  return time;
}

const HostRates &HostMachine::of(unsigned threads) const {
  const HostRates *best = &rates.front();
  for (const HostRates &other : rates)
    if (std::abs(int(other.threads) - int(threads)) < std::abs(int(best->threads) - int(threads)))
      best = &other;
  return *best;
}

namespace {

struct Rate {
  const char *key;
  double HostRates::*field;
};
constexpr Rate kRates[] = {{"shared_s", &HostRates::shared},
                           {"product_s", &HostRates::product},
                           {"product_scale", &HostRates::productScale},
                           {"launch_s", &HostRates::launch},
                           {"instruction_s", &HostRates::instruction},
                           {"near_byte_s", &HostRates::nearByte},
                           {"far_byte_s", &HostRates::farByte},
                           {"attention_flop_s", &HostRates::attentionFlop},
                           {"attention_grad_flop_s", &HostRates::attentionGradFlop},
                           {"own_flop_s", &HostRates::ownFlop},
                           {"routed_expert_s", &HostRates::routedExpert},
                           {"routed_byte_s", &HostRates::routedByte},
                           {"routed_scale", &HostRates::routedScale},
                           {"process_bytes", &HostRates::processBytes},
                           {"copy_s", &HostRates::copy},
                           {"copy_byte_s", &HostRates::copyByte},
                           {"collective_s", &HostRates::collective},
                           {"collective_byte_s", &HostRates::collectiveByte},
                           {"message_s", &HostRates::message},
                           {"message_byte_s", &HostRates::messageByte}};
struct Whole {
  const char *key;
  double HostMachine::*field;
};
constexpr Whole kWhole[] = {{"near_bytes", &HostMachine::nearBytes}, {"issue_s", &HostMachine::issue},
                            {"wake_s", &HostMachine::wake},
                            {"step_s", &HostMachine::step}};

// Reads a number that is not negative; a problem otherwise.
double number(const Json &object, const std::string &path, const char *key, std::vector<std::string> &problems) {
  auto found = object.find(key);
  if (found != object.end() && found->is_number() && found->get<double>() >= 0 && found->get<double>() < 1e15)
    return found->get<double>();
  problems.push_back(text("\"", path, key, "\" is ", found == object.end() ? "missing" : found->dump().substr(0, 40),
                          "; numbers from 0 to 1e15 are valid, as llmc calibrate writes them"));
  return 0;
}

// Reads a count of at least 1; a problem otherwise.
unsigned count(const Json &object, const std::string &path, const char *key, std::vector<std::string> &problems) {
  auto found = object.find(key);
  if (found != object.end() && found->is_number_integer() && found->get<double>() >= 1 && found->get<double>() <= 4096)
    return found->get<unsigned>();
  problems.push_back(text("\"", path, key, "\" is ", found == object.end() ? "missing" : found->dump().substr(0, 40),
                          "; whole numbers from 1 to 4096 are valid"));
  return 1;
}

void refuseOthers(const Json &object, const std::string &path, const std::vector<std::string> &known,
                  std::vector<std::string> &problems) {
  for (const auto &[key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      problems.push_back(text("\"", path, key, "\" is not known; llmc calibrate writes none of that name"));
}

// Reads a list of numbers above 0; empty, after a problem, if it is none.
std::vector<double> numbers(const Json &object, const std::string &path, const char *key,
                            std::vector<std::string> &problems) {
  std::vector<double> list;
  auto found = object.find(key);
  if (found != object.end() && found->is_array())
    for (const Json &value : *found)
      list.push_back(value.is_number() ? value.get<double>() : -1);
  if (list.empty() || *std::min_element(list.begin(), list.end()) <= 0) {
    problems.push_back(text("\"", path, key, "\" is no list of numbers above 0"));
    list.clear();
  }
  return list;
}

ProductGrid readGrid(const Json &json, const std::string &path, std::vector<std::string> &problems) {
  ProductGrid grid;
  if (!json.is_object()) {
    problems.push_back(text("\"", path, "\" is no object of \"sizes\" and \"seconds\""));
    return grid;
  }
  refuseOthers(json, path + ".", {"sizes", "seconds"}, problems);
  grid.sizes = numbers(json, path + ".", "sizes", problems);
  grid.seconds = numbers(json, path + ".", "seconds", problems);
  size_t n = grid.sizes.size();
  bool ascends = std::is_sorted(grid.sizes.begin(), grid.sizes.end()) &&
                 std::adjacent_find(grid.sizes.begin(), grid.sizes.end()) == grid.sizes.end();
  if (n > 0 && (n < 2 || n > 100 || !ascends || grid.seconds.size() != n * n * n))
    problems.push_back(text("\"", path, "\" has ", n, " sizes and ", grid.seconds.size(),
                            " seconds; 2 to 100 ascending sizes, and one number for each three of them, are valid"));
  return grid;
}

HostRates readRates(const Json &json, const std::string &path, std::vector<std::string> &problems) {
  HostRates rates;
  if (!json.is_object()) {
    problems.push_back(text("\"", path, "\" is no object"));
    return rates;
  }
  std::vector<std::string> known = {"threads", "products"};
  for (const Rate &rate : kRates) {
    rates.*rate.field = number(json, path + ".", rate.key, problems);
    known.push_back(rate.key);
  }
  refuseOthers(json, path + ".", known, problems);
  rates.threads = count(json, path + ".", "threads", problems);
  if (rates.ownFlop <= 0)
    problems.push_back(text("\"", path, ".own_flop_s\" is 0; numbers above 0 are valid: products without a grid would take no time"));
  auto products = json.find("products");
  if (products == json.end() || !products->is_object())
    problems.push_back(text("\"", path, ".products\" is no object"));
  else
    for (const auto &[name, grid] : products->items())
      rates.products[name] = readGrid(grid, path + ".products." + name, problems);
  return rates;
}

} // namespace

OrderedJson cost::hostJson(const HostMachine &host) {
  OrderedJson json = {{"kernels", host.kernels}, {"cores", host.cores}};
  for (const Whole &whole : kWhole)
    json[whole.key] = host.*whole.field;
  json["rates"] = OrderedJson::array();
  for (const HostRates &rates : host.rates) {
    OrderedJson each = {{"threads", rates.threads}};
    for (const Rate &rate : kRates)
      each[rate.key] = rates.*rate.field;
    each["products"] = OrderedJson::object();
    for (const auto &[name, grid] : rates.products)
      each["products"][name] = {{"sizes", grid.sizes}, {"seconds", grid.seconds}};
    json["rates"].push_back(std::move(each));
  }
  return json;
}

HostMachine cost::readHost(const Json &json, std::vector<std::string> &problems) {
  HostMachine host;
  std::vector<std::string> known = {"kernels", "cores", "rates"};
  for (const Whole &whole : kWhole) {
    host.*whole.field = number(json, "host.", whole.key, problems);
    known.push_back(whole.key);
  }
  refuseOthers(json, "host.", known, problems);
  host.cores = count(json, "host.", "cores", problems);
  auto kernels = json.find("kernels");
  if (kernels == json.end() || !(*kernels == "avx2" || *kernels == "avx512"))
    problems.push_back("\"host.kernels\" is not avx2 or avx512");
  else
    host.kernels = kernels->get<std::string>();
  auto rates = json.find("rates");
  if (rates == json.end() || !rates->is_array() || rates->empty())
    problems.push_back("\"host.rates\" is no list of at least one object");
  else
    for (size_t i = 0; i < rates->size(); ++i)
      host.rates.push_back(readRates((*rates)[i], text("host.rates[", i, "]"), problems));
  for (size_t i = 1; i < host.rates.size(); ++i)
    if (host.rates[i].threads <= host.rates[i - 1].threads)
      problems.push_back(text("\"host.rates[", i, "].threads\" is ", host.rates[i].threads, " after ",
                              host.rates[i - 1].threads, "; ascending numbers are valid"));
  return host;
}

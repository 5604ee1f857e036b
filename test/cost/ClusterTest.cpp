// Cluster files: what is built in, what is read, and what is refused.
#include "lib/cost/Cluster.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace llmc::cost;

namespace {

TEST(Cluster, KnowsEveryName) {
  for (const char *name : {"a100-40g", "a100-80g", "h100", "h100-96g", "h200", "b200", "b300", "gb200", "gb300", "cpu"}) {
    auto cluster = findGpu(name);
    ASSERT_TRUE(cluster) << cluster.message();
    EXPECT_GT(cluster->peak16, 0) << name;
    EXPECT_FALSE(cluster->sources.empty()) << name;
  }
  auto unknown = findGpu("h10");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.message().find("did you mean 'h100'"), std::string::npos) << unknown.message();
}

// Writes a file and returns the error of reading it, empty if there is none.
std::string refusal(const std::string &text) {
  std::string path = (std::filesystem::temp_directory_path() / "llmc-cluster-test.json").string();
  std::ofstream(path) << text;
  auto cluster = readCluster(path);
  std::filesystem::remove(path);
  return cluster ? "" : cluster.message();
}

TEST(Cluster, TakesABaseAndWhatDiffers) {
  std::string path = (std::filesystem::temp_directory_path() / "llmc-cluster-base.json").string();
  std::ofstream(path) << R"({"name": "ours", "base": "h100", "nic_gbytes_per_s": 12.5, "gpus": 64})";
  auto cluster = readCluster(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(cluster) << cluster.message();
  EXPECT_DOUBLE_EQ(cluster->nic, 12.5e9);
  EXPECT_EQ(cluster->gpus, 64);
  EXPECT_DOUBLE_EQ(cluster->nvlink, findGpu("h100")->nvlink);
}

TEST(Cluster, RefusesWhatItCannotMean) {
  const std::pair<const char *, const char *> cases[] = {
      {R"({"base": "h100", "nic_gbytes_per_s": 50e9})", "numbers from 0.01 to 10000 are valid"},
      {R"({"base": "h100", "nic_gbytes": 50})", "did you mean 'nic_gbytes_per_s'"},
      {R"({"base": "h100", "memory_gib": -80})", "is -80"},
      {R"({"base": "h100", "memory_gib": "80 GB"})", "numbers from 0.1"},
      {R"({"base": "h100", "memory_gib": 0.99})", "keeps 1 for itself"},
      {R"({"base": "h100", "gpus": 2.5})", "whole numbers from 1"},
      {R"({"base": "h1000"})", "h100-96g"},
      {R"({"base": "h100", "generation": "volta"})", "ampere, hopper and blackwell are valid"},
      {R"({"base": "h100", "curves": {"product": {"efficiency": 80}}})", "curves.product.efficiency"},
      {R"({"base": "h100", "curves": []})", "an object is valid"},
      {R"({"base": "h100", "name": "a\u001b[31m"})", "printable ASCII"},
      {R"({"name": "ours"})", "\"peak_tflops_fp32\" is missing"},
      {R"([])", "expected a JSON object"},
      {R"({"base": "h100",})", "not valid JSON"}};
  for (auto [text, words] : cases)
    EXPECT_NE(refusal(text).find(words), std::string::npos) << text << ": " << refusal(text);
  // Says all that is wrong at once.
  std::string both = refusal(R"({"base": "h100", "nics": 1, "gpus": -1})");
  EXPECT_TRUE(both.find("\"nics\"") != std::string::npos && both.find("\"gpus\" is -1") != std::string::npos) << both;
}

} // namespace

// Holds the checks of a verification and renders them as JSON and text. Tested by
// test/verify/ReportTest.cpp.
#ifndef LLMC_LIB_VERIFY_SUBJECT_REPORT_H
#define LLMC_LIB_VERIFY_SUBJECT_REPORT_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc::verify {

// Records one check: it passed if value <= limit.
struct Check {
  // Begins with static:, states:, types:, fp64:, ranges:, kernels:, updates:, oracle:, interleave:
  // or draws:.
  std::string name;
  std::string subject; // the worst tensor, or the object that was checked
  double value = 0, limit = 0;
  bool passed = false;
  std::string note; // explanation; may have several lines
};

// Collects the checks of one verification and its verdict.
struct Report {
  std::string model;  // path of the model
  std::string device; // mesh and step, readable
  uint64_t ranks = 1;
  // Holds the object of --json that describes the scaled-down model, or false; `relation` tells
  // in words how it relates to the plan.
  nlohmann::json twin = false;
  std::string relation;
  std::vector<Check> checks;
  // Identifies the first phase boundary at which the numbers differ from the model's
  // ("partition"), or is empty; `place` describes where (FaultLocation.h).
  std::string border, place;
  std::optional<int64_t> refused; // drawn models that the compiler refused, if models were drawn
  nlohmann::json mutants; // object of --json, null if nothing was mutated

  // Returns whether all checks passed and no mutant survived.
  bool passed() const;
  // Adds a check that passes if value <= limit (NaN never does). Returns whether it passed.
  bool add(std::string name, std::string subject, double value, double limit,
           std::string note = "");
  // Returns the object of `verify --json`; infinite and NaN values become the largest double.
  nlohmann::json json() const;
  // Returns one line a check, the notes of those that failed, then the verdict.
  std::string text() const;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_REPORT_H

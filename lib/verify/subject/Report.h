// What was checked and what came out.
#ifndef LLMC_LIB_VERIFY_SUBJECT_REPORT_H
#define LLMC_LIB_VERIFY_SUBJECT_REPORT_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::verify {

struct Check {
  // Begins static:, states:, fp64:, ranges:, kernels:, updates:, oracle: or interleave:
  std::string name;
  std::string subject; // the worst tensor, or what was looked at
  double value = 0, limit = 0;
  bool passed = false;
  std::string note; // for people; may have several lines
};

struct Report {
  std::string model;  // what was verified
  std::string device; // its mesh and step, for people
  uint64_t ranks = 1;
  // Object of --json if a shrunk twin stands for the plan; and how they relate, for people.
  nlohmann::json twin = false;
  std::string relation;
  std::vector<Check> checks;
  // First border at which the numbers part from the model's ("partition"), or
  // empty; and what is known about the place.
  std::string border, place;
  nlohmann::json mutants; // object of --json, null if nothing was mutated

  bool passed() const;
  // Adds a check that holds if value <= limit (NaN never does). Returns whether.
  bool add(std::string name, std::string subject, double value, double limit,
           std::string note = "");
  // The object of `verify --json`; infinite values are the largest double.
  nlohmann::json json() const;
  // A line a check, then the verdict.
  std::string text() const;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_REPORT_H

// The fields of a config.json, checked as they are read.
#ifndef LLMC_LIB_HUGGINGFACE_CONFIG_H
#define LLMC_LIB_HUGGINGFACE_CONFIG_H

#include "lib/support/Json.h"
#include "llvm/ADT/ArrayRef.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmc::hf {

// Each reader takes all spellings of a field and the value that transformers
// uses where it is absent. Null is that too, but for whole numbers, which transformers
// cannot build with unless it says so (...OrNull). A bad value is noted and replaced by the
// fallback; problems() lists all of them, those of nested objects too.
class Config {
public:
  explicit Config(const support::Json &json)
      : json_(&json), problems_(std::make_shared<std::string>()) {}

  using Names = llvm::ArrayRef<const char *>;
  int64_t positive(Names names, int64_t fallback); // at most 2^30
  int64_t index(Names names, int64_t fallback);    // 0 or more, at most 2^30
  double positiveNumber(Names names, double fallback);
  bool flag(Names names, bool fallback);
  std::string text(Names names, const std::string &fallback);

  // For fields where null says something else than absence: null is nullopt.
  std::optional<int64_t> positiveOrNull(Names names, std::optional<int64_t> absent);
  std::optional<double> positiveNumberOrNull(Names names, std::optional<double> absent);

  // Empty if absent or null.
  std::vector<std::string> texts(Names names);
  std::vector<double> numbers(Names names);

  // The object under the first of the names that has one with fields.
  std::optional<Config> object(Names names);
  bool has(Names names) const; // there, and not null

  // Names of the fields here that hold a number above 0, with it: "attn_pdrop 0.1".
  std::vector<std::string> positives(Names names) const;

  void note(const std::string &problem) { *problems_ += "\n  " + problem; }
  // The field's name for messages, with the objects around it.
  std::string quoted(const std::string &name) const { return "\"" + path_ + name + "\""; }

  // "" if every value read so far is good.
  const std::string &problems() const { return *problems_; }

private:
  const support::Json *find(Names names, std::string &found) const;
  bool isNull(Names names) const; // there, and null under every name
  std::nullopt_t bad(const std::string &name, const char *rule, const support::Json &got);
  std::optional<int64_t> asInteger(const std::string &name, const support::Json &value,
                                   int64_t least, const char *rule);
  std::optional<double> asPositiveNumber(const std::string &name, const support::Json &value);

  const support::Json *json_;
  std::string path_; // "rope_scaling." of a nested object
  std::shared_ptr<std::string> problems_;
};

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_CONFIG_H

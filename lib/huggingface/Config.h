// Reads the fields of a config.json and checks each of them.
// Tested by test/import/Architectures.cpp and test/fuzz/Config.cpp.
#ifndef LLMC_LIB_HUGGINGFACE_CONFIG_H
#define LLMC_LIB_HUGGINGFACE_CONFIG_H

#include "lib/support/Json.h"
#include "llvm/ADT/ArrayRef.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace llmc::hf {

// Wraps a JSON object, which must outlive it, and collects the problems of its fields. Each
// reader takes all spellings of a field, of which the first that is present and not null
// counts, and the fallback that transformers uses where none is. Null means absence too, but
// is a problem for positive(): transformers cannot build with it unless null has a meaning of
// its own (...OrNull). A bad value is noted and replaced by the fallback (by nullopt in
// ...OrNull); problems() lists all of them, including those of nested objects.
class Config {
public:
  explicit Config(const support::Json &json) : json_(&json), problems_(std::make_shared<Problems>()) {}

  using Names = llvm::ArrayRef<const char *>;
  int64_t positive(Names names, int64_t fallback); // at most 2^30
  int64_t index(Names names, int64_t fallback);    // 0 or more, at most 2^30
  double positiveNumber(Names names, double fallback);
  double rate(Names names, double fallback); // at least 0 and less than 1
  bool flag(Names names, bool fallback);
  std::string text(Names names, const std::string &fallback);

  // Reads a field for which null means something other than absence. Returns `absent` if no
  // spelling is present, and nullopt if the value is null or bad.
  std::optional<int64_t> positiveOrNull(Names names, std::optional<int64_t> absent);
  std::optional<double> positiveNumberOrNull(Names names, std::optional<double> absent);

  // Reads a list. Returns an empty one if the field is absent or null; notes a bad one and
  // returns the entries before the first bad one.
  std::vector<std::string> texts(Names names);
  std::vector<double> numbers(Names names);

  // Returns the first object among the fields `names` that is not empty, else nullopt. Notes
  // a field that is no object. The result shares the list of problems.
  std::optional<Config> object(Names names);
  bool has(Names names) const; // present and not null

  // Lists the fields of this object that hold a number above 0, with it: "attn_pdrop 0.1".
  std::vector<std::string> positives(Names names) const;

  // Lists the first number among the fields `names` and those that differ from it, with their
  // names: "\"num_experts\" 9".
  std::vector<std::string> different(const std::vector<const char *> &names) const;

  void note(const std::string &problem) { problems_->text += "\n  " + problem; }
  // Notes what is wrong between fields, unless one of them is bad by itself: what took its place is not the user's.
  void noteBetween(Names fields, const std::string &problem);
  // Returns the quoted name of a field for messages, with the path of nested objects.
  std::string quoted(const std::string &name) const { return "\"" + path_ + name + "\""; }

  // Returns one indented line per problem, or "" if every value read so far is good.
  const std::string &problems() const { return problems_->text; }

private:
  struct Problems {
    std::string text;
    std::set<std::string> fields; // those with a bad value, with the path of nested objects
  };
  const support::Json *find(Names names, std::string &found) const;
  bool isNull(Names names) const; // present, and null under every name
  std::nullopt_t bad(const std::string &name, const char *rule, const support::Json &got);
  std::optional<int64_t> asInteger(const std::string &name, const support::Json &value,
                                   int64_t least, const char *rule);
  std::optional<double> asPositiveNumber(const std::string &name, const support::Json &value);

  const support::Json *json_;
  std::string path_; // "rope_scaling." of a nested object
  std::shared_ptr<Problems> problems_;
};

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_CONFIG_H

// The fields of a config.json, checked as they are read.
#ifndef LLMC_LIB_HUGGINGFACE_CONFIG_H
#define LLMC_LIB_HUGGINGFACE_CONFIG_H

#include "lib/support/Json.h"

#include <initializer_list>
#include <string>

namespace llmc::hf {

// Each reader takes all spellings of a field and the value that transformers
// uses where it is absent or null. A bad value is noted and replaced by the
// fallback; problems() lists all of them.
class Config {
public:
  explicit Config(const support::Json &json) : json_(json) {}

  using Names = std::initializer_list<const char *>;
  int64_t positive(Names names, int64_t fallback); // at most 2^40
  double positiveNumber(Names names, double fallback);
  bool flag(Names names, bool fallback);
  std::string text(Names names, const std::string &fallback);
  void note(const std::string &problem) { problems_ += "\n  " + problem; }

  // "" if every value read so far is good.
  const std::string &problems() const { return problems_; }

private:
  const support::Json *find(Names names, std::string &found) const;
  const support::Json &json_;
  std::string problems_;
};

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_CONFIG_H

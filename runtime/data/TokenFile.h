// A file of tokens, read as rows of seq + 1 at stride seq: raw integers, or
// Megatron-LM's pair PREFIX.bin and PREFIX.idx.
#ifndef LLMC_RUNTIME_DATA_TOKENFILE_H
#define LLMC_RUNTIME_DATA_TOKENFILE_H

#include "lib/support/ElementType.h"
#include "lib/support/Error.h"
#include "lib/support/File.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc::runtime {

struct TokenFormat {
  uint64_t seq = 0;
  int64_t vocabulary = 0;                    // 0: not known
  std::optional<support::ElementType> type; // of raw files; none: the vocabulary says
};

// Tokens that no row of the model's table belongs to.
struct BadTokens {
  struct One {
    uint64_t row = 0, position = 0;
    int64_t token = 0;
  };
  uint64_t count = 0;
  std::vector<One> first; // a few of them
};

class TokenFile {
public:
  // Raw: u16 up to a vocabulary of 65,536, else u32, unless the format says. Named as
  // PREFIX, PREFIX.bin or PREFIX.idx, a pair of Megatron's is known by its index, which
  // says the type; its documents are one stream of tokens in their order.
  static support::Result<TokenFile> open(const std::string &path, const TokenFormat &format);

  uint64_t tokens() const { return tokens_; }
  // Tokens that some row has.
  uint64_t used() const { return rows_ == 0 ? 0 : rows_ * format_.seq + 1; }
  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return tokens_ * support::byteSize(type_); }
  const std::string &path() const { return file_.path(); }
  // "tokens.bin: 4910 u16 tokens, 76 rows of 64".
  std::string note() const;

  // The seq + 1 tokens of a row; an error if one is bad.
  support::Status read(uint64_t row, std::vector<int64_t> &to) const;
  // Adds the bad ones of tokens [first, first + count).
  support::Status check(uint64_t first, uint64_t count, BadTokens &bad) const;
  // Names the file, how many there are and where the first stand.
  support::Error errorOf(const BadTokens &bad) const;

private:
  TokenFile(support::ReadableFile file, const TokenFormat &format)
      : file_(std::move(file)), format_(format) {}
  static support::Result<TokenFile> openRaw(const std::string &path, const TokenFormat &format);
  static support::Result<TokenFile> openIndexed(const std::string &prefix,
                                                const TokenFormat &format);
  support::Status checkKind() const;

  support::ReadableFile file_;
  TokenFormat format_;
  support::ElementType type_ = support::ElementType::U16;
  uint64_t start_ = 0; // byte of the first token
  uint64_t tokens_ = 0, rows_ = 0;
  std::string documents_; // of a pair: how many, for note()
};

// The files that open() reads for a name, for those who must not overwrite them.
std::vector<std::string> tokenFilesOf(const std::string &path);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_DATA_TOKENFILE_H

// Reads a file of tokens as rows of seq + 1 at stride seq: raw integers, or Megatron-LM's
// pair PREFIX.bin and PREFIX.idx. The test is test/runtime/TokenFileTest.cpp.
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

// Describes how to interpret a file.
struct TokenFormat {
  uint64_t seq = 0;
  int64_t vocabulary = 0;                    // 0: unknown, so nothing is checked
  std::optional<support::ElementType> type; // of raw files; none: chosen by the vocabulary
};

// Counts tokens outside of [0, vocabulary).
struct BadTokens {
  struct One {
    uint64_t row = 0, position = 0;
    int64_t token = 0;
  };
  uint64_t count = 0;
  std::vector<One> first; // at most three
};

// Owns one open file.
class TokenFile {
public:
  // Opens a file. Raw tokens are u16 up to a vocabulary of 65,536, else u32, unless the
  // format has a type. A pair of Megatron's is named as PREFIX, PREFIX.bin or PREFIX.idx and
  // recognized by its index, which holds the type; its documents form one stream of tokens in
  // their order. Fails for other kinds of files, and if size, type and index disagree.
  static support::Result<TokenFile> open(const std::string &path, const TokenFormat &format);

  uint64_t tokens() const { return tokens_; }
  // Returns the number of tokens that some row contains.
  uint64_t used() const { return rows_ == 0 ? 0 : rows_ * format_.seq + 1; }
  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return tokens_ * support::byteSize(type_); }
  const std::string &path() const { return file_.path(); }
  // Returns a description such as "tokens.bin: 4910 u16 tokens, 76 rows of 64".
  std::string note() const;

  // Reads the seq + 1 tokens of a row into `to`; fails if one is bad.
  support::Status read(uint64_t row, std::vector<int64_t> &to) const;
  // Adds to `bad` the bad ones of tokens [first, first + count); fails if they cannot be
  // read.
  support::Status check(uint64_t first, uint64_t count, BadTokens &bad) const;
  // Returns an error that names the file, the number of bad tokens and the first of them.
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
  std::string documents_; // of a pair: their number, for note()
};

// Returns the files that open() reads for a name, which no output may overwrite.
std::vector<std::string> tokenFilesOf(const std::string &path);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_DATA_TOKENFILE_H

// The equation of a graph.matmul in its three parts.
#ifndef LLMC_PASSES_RAISE_EQUATION_H
#define LLMC_PASSES_RAISE_EQUATION_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace llmc::raise {

struct Equation {
  std::string lhs, rhs, out;

  // `text` was verified: "bsd,de->bse".
  explicit Equation(llvm::StringRef text)
      : lhs(text.take_until([](char c) { return c == ','; })),
        rhs(text.split(',').second.split("->").first), out(text.split("->").second) {}

  std::string str() const { return lhs + "," + rhs + "->" + out; }

  // A letter that stands nowhere yet.
  char freshLetter() const {
    for (char c = 'a'; c <= 'z'; ++c)
      if ((lhs + rhs + out).find(c) == std::string::npos)
        return c;
    return 0;
  }
};

inline bool has(const std::string &letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_EQUATION_H

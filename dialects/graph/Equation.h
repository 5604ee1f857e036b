// The equation of graph.matmul, "bsd,de->bse", taken apart.
#ifndef LLMC_DIALECTS_GRAPH_EQUATION_H
#define LLMC_DIALECTS_GRAPH_EQUATION_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace llmc::graph {

struct Equation {
  std::string lhs, rhs, result; // one letter per dimension

  // Nothing if the text is not of the form "letters,letters->letters".
  static std::optional<Equation> parse(llvm::StringRef text);
  std::string str() const { return lhs + "," + rhs + "->" + result; }

  // Letters of both operands and the result; of the operands only; and of one
  // operand and the result. In the order of the lhs (rhs for onlyRhs).
  std::string batch() const;
  std::string contracted() const;
  std::string onlyLhs() const;
  std::string onlyRhs() const;
};

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_EQUATION_H

// Parses the equation of graph.matmul, "bsd,de->bse", and sorts its letters by role. Tests:
// test/dialects/graph/invalid.mlir (what is refused), test/passes/6-emit/WritePlanTest.cpp
// (Equations).
#ifndef LLMC_DIALECTS_GRAPH_EQUATION_H
#define LLMC_DIALECTS_GRAPH_EQUATION_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace llmc::graph {

struct Equation {
  std::string lhs, rhs, result; // one letter per dimension

  // Returns nullopt if the text is not of the form "letters,letters->letters".
  static std::optional<Equation> parse(llvm::StringRef text);
  std::string str() const { return lhs + "," + rhs + "->" + result; }

  // Lists the letters of both operands and the result; of the operands alone; and of one operand
  // and the result. They come in the order of the lhs (onlyRhs: of the rhs).
  std::string batch() const;
  std::string contracted() const;
  std::string onlyLhs() const;
  std::string onlyRhs() const;
};

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_EQUATION_H

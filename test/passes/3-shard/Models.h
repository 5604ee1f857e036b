// Draws small models as text, and applies changes that must not matter.
#ifndef LLMC_TEST_PASSES_SHARD_MODELS_H
#define LLMC_TEST_PASSES_SHARD_MODELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <array>
#include <map>
#include <random>
#include <string>

namespace llmc::test {

struct Mesh {
  int64_t dp = 1, pp = 1, tp = 1;
  // Splits dp and tp into products of several axes; no tactic uses these yet.
  int64_t cp = 1, ep = 1, etp = 1;
  int64_t ranks() const { return dp * pp * tp * cp; }
  std::string text() const;
};

// Describes a raised model: token table, `layers` folded blocks, a head. Everything that the
// tactics inspect can differ between two draws.
struct Model {
  int64_t batch = 4, sequence = 5, width = 8, heads = 2, hidden = 12, vocabulary = 11, layers = 2;
  bool attention = true; // else the blocks are an MLP alone
  bool norm = true, bias = true, positions = true, residual = true;
  // Selects features of later architectures. kv heads are shared by groups of heads (0: as many
  // as heads).
  int64_t kvHeads = 0;
  bool rms = false;        // norms are rms_norm
  bool rotary = false;     // q and k are rotated by tables made outside of the layers
  bool headNorm = false;   // q and k are normed over a head's dim
  bool split = false;      // q, k and v are made by weights of three dimensions
  bool gated = false;      // SwiGLU
  bool parallel = false;   // attention and MLP read one input
  bool postNorm = false;   // branches are normed before they are added
  bool window = false;     // attention sees the last two keys
  bool masked = false;     // an i1 mask of each row
  bool scaled = false;     // layers scale their input by one vector, made once of a parameter
  double softcap = 0;      // of scores and logits
  bool tied = true;       // the head is the token table
  bool transposed = false; // weights are written [out, in]
  // Selects the order of q, k and v, and whether they are views of one source.
  std::array<int, 3> order = {0, 1, 2};
  bool fused = false;

  int64_t headDim() const { return width / heads; }
  int64_t kvWidth() const { return (kvHeads ? kvHeads : heads) * headDim(); }
  std::string text() const; // one module with @forward
  std::string describe() const;
};

// Draws a mesh, and a model that fits it: heads, features, layers and rows divide; the vocabulary
// need not.
Mesh drawMesh(std::mt19937 &random, int64_t maxRanks);
Model drawModel(std::mt19937 &random, const Mesh &mesh);

// Puts the ops of every block in another order that respects their operands.
void shuffleOps(mlir::ModuleOp module, std::mt19937 &random);

// Renames sources, states and locations. Returns new name -> old name of states.
std::map<std::string, std::string> renameAll(mlir::ModuleOp module, std::mt19937 &random);

// Sets parallel.mesh.
void setMesh(mlir::ModuleOp module, const Mesh &mesh);

// Loads all dialects that phases 2 to 5 need.
void loadDialects(mlir::MLIRContext &context);
// Parses a module; ends the program if the text does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parse(mlir::MLIRContext &context, const std::string &text);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_SHARD_MODELS_H

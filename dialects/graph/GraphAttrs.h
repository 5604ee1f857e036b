// Names the discardable attributes of the graph dialect, and verifies them: the only
// spelling of each key. Tests: test/dialects/graph/invalid.mlir.
#ifndef LLMC_DIALECTS_GRAPH_GRAPHATTRS_H
#define LLMC_DIALECTS_GRAPH_GRAPHATTRS_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Operation.h"

namespace llmc::graph {

// Names attributes of a module.
inline constexpr llvm::StringLiteral kModel = "graph.model";         // dictionary: name, layers, ...
inline constexpr llvm::StringLiteral kFiles = "graph.files";         // list of {path, byte_size, hash}
inline constexpr llvm::StringLiteral kConstants = "graph.constants"; // names of what is not trained
inline constexpr llvm::StringLiteral kBatch = "graph.batch";         // rows of one micro-batch, global
inline constexpr llvm::StringLiteral kChoices = "graph.choices";     // of experts, of one micro-batch, global
inline constexpr llvm::StringLiteral kMode = "graph.mode";           // "infer"; missing: training
inline constexpr llvm::StringLiteral kInputs = "graph.inputs";       // list of {name, type, ...}

// Names attributes of function arguments and results.
inline constexpr llvm::StringLiteral kState = "graph.state";     // @symbol that is read or updated
inline constexpr llvm::StringLiteral kInput = "graph.input";     // name of an input of the program
inline constexpr llvm::StringLiteral kScalar = "graph.scalar";   // name of what the host sets a step
inline constexpr llvm::StringLiteral kOutput = "graph.output";   // name of an output of the program
// Names the output that counts rows which found no room at their experts (graph.exchange_routes).
inline constexpr llvm::StringLiteral kLostRows = "moe_lost";
// Names the output that counts choices of experts which a limit leaves out (LimitRoutes).
inline constexpr llvm::StringLiteral kDroppedChoices = "moe_dropped";
// Names the output that is the loss without what balances experts; missing: "loss" has nothing of that.
inline constexpr llvm::StringLiteral kCrossEntropy = "cross_entropy";
// Names results of @forward that balance experts (BalanceExperts): the auxiliary loss of each row, and what
// has the loads of experts as its gradient with respect to the biases of routers.
inline constexpr llvm::StringLiteral kAuxiliaryLoss = "moe_aux";
inline constexpr llvm::StringLiteral kBiasedChoices = "moe_bias";
inline constexpr llvm::StringLiteral kBatched = "graph.batched"; // unit: dimension 0 is the batch
inline constexpr llvm::StringLiteral kLoader = "graph.loader";   // #graph.loader of an input
inline constexpr llvm::StringLiteral kPrimal = "graph.primal";   // pairs a value with its
inline constexpr llvm::StringLiteral kCotangent = "graph.cotangent"; // cotangent, by number

// Names attributes of ops.
inline constexpr llvm::StringLiteral kBackward = "graph.backward"; // unit: op of the backward pass
inline constexpr llvm::StringLiteral kId = "graph.id";             // number of a forward op
inline constexpr llvm::StringLiteral kCotangentOf = "graph.cotangent_of"; // [id, result] pairs
// Marks a state, the bias of a router's choice: a step moves it by this much toward equal loads of the
// experts, which its accumulator counts in place of a gradient.
inline constexpr llvm::StringLiteral kBiasRate = "graph.bias_rate";
// Names, of a state that sums numbers over the step, the output that follows from it; loss and tokens have no name.
inline constexpr llvm::StringLiteral kSumOf = "graph.sum_of";
inline constexpr llvm::StringLiteral kAnnotation = "graph.annotation"; // dictionary: what the file asks

// Describes one discardable attribute: on what it may stand, and which attributes it may be.
enum AttributeOwner : unsigned { OnModule = 1, OnOp = 2, OnArgument = 4, OnResult = 8 };
struct DiscardableAttribute {
  llvm::StringLiteral name;
  unsigned owners;          // AttributeOwner bits
  llvm::StringLiteral form; // in words, for messages
  bool (*accepts)(mlir::Attribute);
};

// Checks `attribute` of `op` (or of an argument or result of that function) against a dialect's
// table: the key is known, stands on an owner that it may have, and its value has the form. Emits
// an error with the key, the form and what was got otherwise.
mlir::LogicalResult verifyDiscardable(mlir::Operation *op, mlir::NamedAttribute attribute,
                                      AttributeOwner owner,
                                      llvm::ArrayRef<DiscardableAttribute> table);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_GRAPHATTRS_H

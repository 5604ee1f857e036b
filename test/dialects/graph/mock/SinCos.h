// Declares an op of two results, added as README.md describes: its rules and interface methods
// are here, its random case is drawSinCos(). Nothing else refers to it.
#ifndef LLMC_TEST_DIALECTS_GRAPH_MOCK_SINCOS_H
#define LLMC_TEST_DIALECTS_GRAPH_MOCK_SINCOS_H

#include "dialects/graph/Detail.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace llmc::graph::test {

// Represents `%s, %c = "mock.sin_cos"(%x)`: sine and cosine of radians. Rules: C1 both results
// have the operand's type.
class SinCosOp
    : public mlir::Op<SinCosOp, mlir::OpTrait::ZeroRegions, mlir::OpTrait::NResults<2>::Impl,
                      mlir::OpTrait::ZeroSuccessors, mlir::OpTrait::OneOperand,
                      mlir::OpTrait::OpInvariants, mlir::ConditionallySpeculatable::Trait,
                      mlir::OpTrait::AlwaysSpeculatableImplTrait,
                      mlir::MemoryEffectOpInterface::Trait, GraphOpInterface::Trait> {
public:
  using Op::Op;
  static llvm::StringRef getOperationName() { return "mock.sin_cos"; }
  static llvm::ArrayRef<llvm::StringRef> getAttributeNames() { return {}; }
  static void build(mlir::OpBuilder &builder, mlir::OperationState &state, mlir::Value x);
  static SinCosOp create(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
  mlir::LogicalResult verifyInvariantsImpl() { return mlir::success(); }
  mlir::LogicalResult verify();
  void getEffects(llvm::SmallVectorImpl<
                  mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>> &) {}

  ShardingRule getShardingRule();
  void evaluate(Inputs<double> inputs, Outputs<double> outputs);
  void evaluateDual(Inputs<Dual> inputs, Outputs<Dual> outputs);
  void evaluateBounded(Inputs<Bounded> inputs, Outputs<Bounded> outputs);
  mlir::LogicalResult differentiate(mlir::OpBuilder &builder,
                                    llvm::ArrayRef<mlir::Value> cotangents,
                                    llvm::SmallVectorImpl<mlir::Value> &operandCotangents);
};

struct Case;
class Random;
Case drawSinCos(Random &random);

class MockDialect : public mlir::Dialect {
public:
  explicit MockDialect(mlir::MLIRContext *context);
  static llvm::StringRef getDialectNamespace() { return "mock"; }
};

} // namespace llmc::graph::test

MLIR_DECLARE_EXPLICIT_TYPE_ID(llmc::graph::test::SinCosOp)
MLIR_DECLARE_EXPLICIT_TYPE_ID(llmc::graph::test::MockDialect)

#endif // LLMC_TEST_DIALECTS_GRAPH_MOCK_SINCOS_H

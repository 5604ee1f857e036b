// Registers the dialect: ops, attributes and interfaces from TableGen.
#include "dialects/graph/Graph.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc::graph;

#include "dialects/graph/GraphDialect.cpp.inc"
#include "dialects/graph/GraphEnums.cpp.inc"
#include "dialects/graph/GraphInterfaces.cpp.inc"

// Parses `[96, 1]`, and `[]` for a scalar.
static ParseResult parseStrides(AsmParser &parser, SmallVectorImpl<int64_t> &strides) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
    return parser.parseInteger(strides.emplace_back());
  });
}
static void printStrides(AsmPrinter &printer, ArrayRef<int64_t> strides) {
  printer << '[';
  llvm::interleaveComma(strides, printer);
  printer << ']';
}

#define GET_ATTRDEF_CLASSES
#include "dialects/graph/GraphAttrs.cpp.inc"

LogicalResult LoaderAttr::verify(function_ref<InFlightDiagnostic()> emitError, InputDefault,
                                 int64_t permutedDim, DenseI64ArrayAttr blockOrder) {
  if (permutedDim < 0 || (permutedDim > 0) != bool(blockOrder))
    return emitError() << "C1: an input is permuted along a dim behind its rows, in block_order";
  if (!blockOrder)
    return success();
  SmallVector<int64_t> blocks(blockOrder.asArrayRef());
  llvm::sort(blocks);
  if (blocks.empty() || !llvm::equal(blocks, llvm::seq<int64_t>(0, blocks.size())))
    return emitError() << "C1: block_order is no permutation, got " << blockOrder;
  return success();
}

std::string LoaderAttr::describeMisfit(ArrayRef<int64_t> shape, bool isShard) const {
  if (!isPermuted())
    return "";
  if (getPermutedDim() >= static_cast<int64_t>(shape.size()))
    return "an input is permuted along a dim behind its rows, in block_order";
  if (!isShard && shape[getPermutedDim()] % getBlockOrder().size() != 0)
    return "an input is permuted in blocks that do not fit";
  return "";
}

#define GET_OP_CLASSES
#include "dialects/graph/GraphOps.cpp.inc"

void GraphDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/graph/GraphAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/graph/GraphOps.cpp.inc"
      >();
}

#include "lib/onnx/Conversion.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

// NumPy's matmul: batch dims broadcast, a vector gets a dim that goes again.
ConvertResult convertMatMul(Call &call) {
  if (call.size() != 2 || !call.has(0) || !call.has(1) || !call.isFloat(0) || !call.isFloat(1))
    return error("needs two float operands");
  size_t a = call.shape(0).size(), b = call.shape(1).size(), batch = std::max(a, b) - 2;
  if (a < 1 || b < 1 || std::max(a, b) > 22)
    return error("shapes ", toText(call.shape(0)), " and ", toText(call.shape(1)),
                 " do not multiply");
  if (a < 2 && b < 2)
    batch = 0;
  // a ... x m, k and n are named last to first; b-t are batch dims.
  std::string dims;
  for (size_t i = 0; i < batch; ++i)
    dims += static_cast<char>('a' + i);
  auto tail = [&](size_t rank) { return rank >= 2 ? dims.substr(batch - (rank - 2)) : ""; };
  std::string lhs = tail(a) + (a >= 2 ? "xy" : "y"), rhs = tail(b) + (b >= 2 ? "yz" : "y");
  std::string out = dims + (a >= 2 ? "x" : "") + (b >= 2 ? "z" : "");
  auto product = call.einsum(lhs, rhs, out);
  if (!product)
    return product.takeError();
  return single(*product);
}

ConvertResult convertGemm(Call &call) {
  if (!call.has(0) || !call.has(1) || call.shape(0).size() != 2 || call.shape(1).size() != 2 ||
      !call.isFloat(0) || !call.isFloat(1))
    return error("needs two float matrices");
  auto product = call.einsum(call.node.integer("transA", 0) ? "yx" : "xy",
                             call.node.integer("transB", 0) ? "zy" : "yz", "xz");
  if (!product)
    return product.takeError();
  Value out = *product;
  if (double alpha = call.node.number("alpha", 1); alpha != 1)
    out = call.build.mul(out, call.scalar(alpha));
  if (!call.has(2))
    return single(out);
  auto shape = broadcastShapes(call.shape(2), graph::shapeOf(out));
  if (!shape || !llvm::equal(*shape, graph::shapeOf(out)) || !call.isFloat(2))
    return error("C of shape ", toText(call.shape(2)), " does not broadcast to ",
                 toText(graph::shapeOf(out)));
  bool vector = call.shape(2).back() == graph::shapeOf(out)[1];
  for (int64_t d : llvm::ArrayRef<int64_t>(call.shape(2)).drop_back())
    vector &= d == 1;
  Value bias = call.broadcastable(2, vector ? Role::Bias : Role::Plain);
  if (double beta = call.node.number("beta", 1); beta != 1)
    bias = call.build.mul(bias, call.scalar(beta));
  return single(call.build.add(out, bias));
}

} // namespace

ConvertFunction llmc::onnximport::findMatmulConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {{"MatMul", convertMatMul},
                                                         {"Gemm", convertGemm}};
  return table.lookup(op);
}

#include "lib/onnx/file/Experts.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Status;

Status llmc::onnximport::checkExperts(const Model &model, const NodeOrder &order) {
  static const llvm::StringSet<> products = {"MatMul", "Gemm", "Einsum", "FusedMatMul",
                                             "MatMulNBits"};
  // Maps the names of values to the TopK that they depend on; operands come before their users.
  llvm::StringMap<const Node *> chosen;
  std::string routers;
  std::set<const ::onnx::NodeProto *> listed;
  auto list = [&](const Node &node) {
    if (listed.insert(node.proto).second)
      routers += "\n  " + node.label();
  };
  for (const Node &node : order.nodes) {
    const Node *router = node.op() == "TopK" ? &node : nullptr;
    for (const std::string &input : node.proto->input())
      if (auto it = chosen.find(input); !router && it != chosen.end())
        router = it->second;
    if (node.op() == "MoE" || node.op() == "QMoE")
      list(node);
    else if (router && products.contains(node.op()))
      list(*router);
    for (const std::string &output : node.proto->output())
      if (router && !output.empty())
        chosen[output] = router;
  }
  if (routers.empty())
    return support::ok();
  return error(model.path(), ": a mixture of experts: these nodes choose which experts work on "
                             "a token. Experts come with expert parallelism, which is not built "
                             "yet; use a model without them:",
               routers);
}

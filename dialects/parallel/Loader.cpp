#include "dialects/parallel/Loader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

SmallVector<NamedAttribute> llmc::parallel::loaderEntries(DictionaryAttr from) {
  SmallVector<NamedAttribute> entries;
  for (StringRef key : {"default", "permuted_dim", "block_order"})
    if (auto entry = from ? from.getNamed(key) : std::nullopt)
      entries.push_back(*entry);
  return entries;
}

std::string llmc::parallel::describeLoaderFault(DictionaryAttr loader, ArrayRef<int64_t> shape,
                                          bool isPart) {
  if (!loader)
    return "";
  if (Attribute given = loader.get("default")) {
    auto name = dyn_cast<StringAttr>(given);
    if (!name || !is_contained({"zeros", "ones", "positions", "row_ids"}, name.getValue()))
      return "an input's default is zeros, ones, positions or row_ids";
  }
  if (!loader.contains("permuted_dim") && !loader.contains("block_order"))
    return "";
  auto permuted = loader.getAs<IntegerAttr>("permuted_dim");
  auto order = loader.getAs<DenseI64ArrayAttr>("block_order");
  if (!permuted || !order || permuted.getInt() < 1 || permuted.getInt() >= int64_t(shape.size()))
    return "an input is permuted along a dim behind its rows, in block_order";
  SmallVector<int64_t> blocks(order.asArrayRef());
  llvm::sort(blocks);
  if (blocks.empty() || !llvm::equal(blocks, llvm::seq<int64_t>(0, blocks.size())))
    return "block_order is no permutation";
  if (!isPart && shape[permuted.getInt()] % int64_t(blocks.size()) != 0)
    return "an input is permuted in blocks that do not fit";
  return "";
}

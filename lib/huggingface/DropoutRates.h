// Reads at which rates a config drops elements in training. Tested by test/import/Architectures.cpp.
#ifndef LLMC_LIB_HUGGINGFACE_DROPOUTRATES_H
#define LLMC_LIB_HUGGINGFACE_DROPOUTRATES_H

#include "lib/huggingface/Config.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"

namespace llmc::hf {

// Returns the rates of an architecture's places as `graph.model` has them: a dictionary of
// `embedding`, `attention`, `attention_output` and `mlp_output`, each from 0 to less than 1. A field
// that is missing has the default of transformers. Notes a bad rate in `config`.
mlir::DictionaryAttr dropoutRates(mlir::MLIRContext &context, Config &config, llvm::StringRef modelType);

// Lists the fields of a config that hold a rate above 0, with it.
std::vector<std::string> statedDropout(const Config &config);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_DROPOUTRATES_H

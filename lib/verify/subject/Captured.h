// Diagnostics as the note of a check.
#ifndef LLMC_LIB_VERIFY_SUBJECT_CAPTURED_H
#define LLMC_LIB_VERIFY_SUBJECT_CAPTURED_H

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace llmc::verify {

// Keeps diagnostics as text, for as long as it lives.
class Captured {
public:
  explicit Captured(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          text += diagnostic.str() + "\n";
          return mlir::success();
        }) {}
  std::string text;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_CAPTURED_H

// Collects diagnostics for the note of a check. Tested by test/verify/ReportTest.cpp.
#ifndef LLMC_LIB_VERIFY_SUBJECT_DIAGNOSTICCAPTURE_H
#define LLMC_LIB_VERIFY_SUBJECT_DIAGNOSTICCAPTURE_H

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace llmc::verify {

// Appends every diagnostic of the context to `text`, one a line, and suppresses it, while the
// object lives.
class DiagnosticCapture {
public:
  explicit DiagnosticCapture(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          text += diagnostic.str() + "\n";
          return mlir::success();
        }) {}
  std::string text;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_DIAGNOSTICCAPTURE_H

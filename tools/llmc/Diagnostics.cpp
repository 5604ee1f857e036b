// Prints MLIR's diagnostics as messages for the user at the terminal.
#include "tools/llmc/Diagnostics.h"

#include "lib/support/Progress.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

namespace llmc {
using namespace mlir;

// Returns "node 'x'" for a named location, "file:line:col" for a location in a dump, else an
// empty string.
static std::string describe(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return "node '" + name.getName().str() + "'";
  if (auto file = dyn_cast<FileLineColLoc>(loc))
    return (file.getFilename().getValue() + ":" + llvm::Twine(file.getLine()) + ":" +
            llvm::Twine(file.getColumn()))
        .str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (std::string text = describe(part); !text.empty())
        return text;
  return {};
}

static void print(Diagnostic &diagnostic, const std::string &model, llvm::StringSet<> &said) {
  llvm::StringRef severity;
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    severity = "error";
    break;
  case DiagnosticSeverity::Warning:
    severity = "warning";
    break;
  case DiagnosticSeverity::Note:
    severity = "note";
    break;
  case DiagnosticSeverity::Remark:
    severity = "remark";
    break;
  }
  std::string text = diagnostic.str();
  std::string line = ("llmc: " + severity + ": ").str();
  std::string place = describe(diagnostic.getLocation());
  bool names = llvm::StringRef(place).starts_with(model); // "FILE:line:col"
  if (names || !llvm::StringRef(text).starts_with(model))
    line += (names ? place : model) + ": ";
  if (!names && !place.empty() && place != "node '" + model + "'") // the function's name
    line += place + ": ";
  line += text + "\n";
  if (said.insert(line).second)
    llvm::errs() << (support::isTerminal(2) ? "\r\033[K" : "") << line; // clears a progress line
  for (Diagnostic &note : diagnostic.getNotes())
    print(note, model, said);
}

TerminalDiagnostics::TerminalDiagnostics(MLIRContext *context, std::string model,
                                         support::Verbosity verbosity)
    : handler(context, [model = std::move(model), verbosity,
                        said = std::make_shared<llvm::StringSet<>>()](Diagnostic &diagnostic) {
        bool fails = diagnostic.getSeverity() == DiagnosticSeverity::Error;
        if (fails || verbosity != support::Verbosity::Quiet)
          print(diagnostic, model, *said);
        return success();
      }) {
  context->printOpOnDiagnostic(false);
}

} // namespace llmc

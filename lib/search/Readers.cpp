#include "lib/search/Readers.h"

#include "lib/pipeline/Pipeline.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <atomic>
#include <thread>

using namespace llmc;
using namespace llmc::search;

std::string search::firstError(mlir::MLIRContext &context, llvm::function_ref<void()> read) {
  std::string error;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && error.empty())
      error = diagnostic.str();
    return mlir::success();
  });
  read();
  return error;
}

struct Readers::Other {
  Other() : context(registry(), mlir::MLIRContext::Threading::DISABLED), models(context) { context.loadAllAvailableDialects(); }
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }
  mlir::MLIRContext context;
  predict::RaisedModels models;
};

// Returns how many threads read: each raises the model once.
static unsigned countThreads() { return std::clamp(std::thread::hardware_concurrency(), 1u, 8u); }

Readers::Readers(predict::RaisedModels &models) : all_{&models}, pool_(llvm::hardware_concurrency(countThreads())) {
  while (all_.size() < countThreads()) {
    others_.push_back(std::make_unique<Other>());
    all_.push_back(&others_.back()->models);
  }
}

Readers::~Readers() = default;

void Readers::run(size_t count, const std::function<void(predict::RaisedModels &, size_t)> &work) {
  std::atomic<size_t> next = 0;
  auto loop = [&](predict::RaisedModels &models) {
    for (size_t i = next++; i < count; i = next++)
      work(models, i);
  };
  if (count < 2) {
    loop(*all_.front());
    return;
  }
  for (predict::RaisedModels *models : all_)
    pool_.async([&loop, models] { loop(*models); });
  pool_.wait();
}

// Imports configs that tests write, and compares what is built.
#ifndef LLMC_TEST_IMPORT_CONFIGS_H
#define LLMC_TEST_IMPORT_CONFIGS_H

#include "Check.h"

#include "mlir/IR/Verifier.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace llmc::test {

class Configs {
public:
  Configs() : folder_(std::filesystem::temp_directory_path() / ("llmc-configs-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Configs() {
    std::error_code code;
    std::filesystem::remove_all(folder_, code);
  }

  // Imports a config of these fields; returns null with the error in `message` if it is refused.
  mlir::OwningOpRef<mlir::ModuleOp> read(const std::string &fields, std::string &message, int64_t sequence = 0,
                             const std::string &weights = "random") {
    std::ofstream(folder_ / "config.json") << "{" << fields << "}";
    CompileOptions options = optionsFor(1, sequence);
    options.weights = weights;
    return import(context_, (folder_ / "config.json").string(), options, message);
  }

  // Returns the module that is built, as text without graph.model.
  std::string text(const std::string &fields, int64_t sequence = 16) {
    std::string message, out;
    auto module = read(fields, message, sequence);
    EXPECT_TRUE(module && succeeded(mlir::verify(*module))) << fields + ": " + message;
    if (!(module && succeeded(mlir::verify(*module))))
      return "refused: " + fields;
    (*module)->removeAttr("graph.model");
    llvm::raw_string_ostream stream(out);
    module->print(stream);
    return out;
  }

  void same(const std::string &what, const std::string &one, const std::string &other,
            int64_t sequence = 16) {
    EXPECT_TRUE(text(one, sequence) == text(other, sequence)) << what + ": " + one + " is " + other;
  }
  void differ(const std::string &what, const std::string &one, const std::string &other,
              int64_t sequence = 16) {
    EXPECT_TRUE(text(one, sequence) != text(other, sequence))
        << what + ": " + one + " is not " + other;
  }
  void refuses(const std::string &fields, std::initializer_list<const char *> words) {
    std::string message;
    auto module = read(fields, message, 16);
    EXPECT_TRUE(!module && !message.empty()) << fields + " is refused";
    for (const char *word : words)
      EXPECT_TRUE(message.find(word) != std::string::npos)
          << fields + ": the message lacks '" + word + "': " + message;
  }

private:
  std::filesystem::path folder_;
  mlir::MLIRContext context_;
};

// Counts the elements of all states.
inline int64_t parametersOf(mlir::ModuleOp module) {
  int64_t sum = 0;
  for (auto state : module.getOps<graph::StateOp>())
    sum += mlir::cast<mlir::ShapedType>(state.getType()).getNumElements();
  return sum;
}

} // namespace llmc::test

#endif // LLMC_TEST_IMPORT_CONFIGS_H

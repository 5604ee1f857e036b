// Reads the tables of a model for one mesh, one for each choice of what is recomputed: what a prediction and a search price.
// Tests: test/predict/TableTest.cpp, test/numerics/predicted_traffic.py.
#ifndef LLMC_LIB_PREDICT_TABLES_H
#define LLMC_LIB_PREDICT_TABLES_H

#include "lib/cost/Kernels.h"
#include "lib/predict/RaisedModels.h"
#include "passes/2-train/DivideLayers/Balance.h"
#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace llmc::predict {

// Holds what is read of a model for a mesh.
struct Tables {
  std::map<cost::Kept, cost::Table> of; // of other stacks one alone, of Kept::All
  std::map<cost::Kept, cost::Table> split; // those of a zero-bubble schedule, where they were asked for
  stages::LayerCosts costs;             // of all layers of the model
  std::string model;                    // its name
  int64_t sequence = 0;                 // tokens of a row
  bool isShort = false;                 // the model is a config.json, of which layers can be left out
};

// Returns the options with which a table is read: one layer of each kind, on one stage. `isOurs`: choices of our own plans
// stay, but for the order of micro-batches; else what the table does not hold has its plain value.
CompileOptions optionsOfTable(CompileOptions options, bool isOurs);

// Returns the tables of options.model for the mesh of the options and `choices`, one for each of `kept`, of which other stacks
// have one alone. `splits`: of several stages also those of a zero-bubble schedule. Nullopt after diagnostics: of the model, or
// of a mesh that does not fit it.
std::optional<Tables> readTables(RaisedModels &models, const CompileOptions &options, const cost::Choices &choices,
                                 llvm::ArrayRef<cost::Kept> kept, bool splits = false);

// Returns those of each of `rows` of a micro-batch in place of that of the options, of one reading of the model for all of them
// (MarkedRows.h). Nullopt where the model has no rows that mark them, without diagnostics, and like readTables.
std::optional<std::vector<Tables>> readTablesOfRows(RaisedModels &models, const CompileOptions &options, const cost::Choices &choices,
                                                    llvm::ArrayRef<int64_t> rows, llvm::ArrayRef<cost::Kept> kept, bool splits);

// Returns the layers of each virtual stage, as compile divides them.
std::optional<std::vector<int64_t>> divideStages(const stages::LayerCosts &costs, const cost::Choices &choices);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_TABLES_H

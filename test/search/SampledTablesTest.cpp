// Tables that are interpolated beside tables that are read of the model: steps, memory and traffic are equal.
#include "Requests.h"

#include "lib/cost/Memory.h"
#include "lib/cost/Step.h"
#include "lib/predict/MarkedRows.h"
#include "lib/search/SampledTables.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace llmc;
using namespace llmc::search;

namespace {

// Compares the table of a mesh with that which is read of it.
void compare(SampledTables &tables, predict::RaisedModels &models, const Space &space, const test::Asked &asked, const TableKey &key,
             int64_t pp) {
  std::string where = "tp " + std::to_string(key.layout.tp) + " ep " + std::to_string(key.layout.ep) + " dp " + std::to_string(key.dp) +
                      " zero " + std::to_string(key.zero) + " rows " + std::to_string(key.microBatch);
  Candidate candidate{key.layout, key.dp, pp, 1, key.microBatch, 4, cost::Order::OneFOneB, key.zero, cost::Kept::Selective, {}};
  CompileOptions options = asked.request.options;
  cost::Machine machine = asked.machine;
  space.apply(candidate, options, machine);
  auto read = predict::readTables(models, options, machine.choices, {cost::Kept::Selective});
  auto made = tables.at(key, cost::Kept::Selective);
  ASSERT_TRUE(read && made) << where << ": " << tables.why();
  const cost::Table &table = read->of.at(cost::Kept::Selective);
  machine.choices.stages = pp > 1 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>();
  double step = cost::predictStep(table, machine).step;
  EXPECT_NEAR(cost::predictStep(*made, machine).step / step, 1, 2e-3) << where;
  auto memory = cost::predictMemory(table, machine), other = cost::predictMemory(*made, machine);
  for (size_t i = 0; i < memory.size(); ++i)
    EXPECT_NEAR(other[i].sum() / memory[i].sum(), 1, 5e-3) << where;
}

TEST(SampledTables, AreThoseOfTheModel) {
  for (const char *model : {"llama", "mixtral"}) {
    test::Searching searching(model, 32, 64);
    auto &[context, models, asked, readers, space, tables] = searching;
    const bool mixes = std::string(model) == "mixtral";
    ASSERT_TRUE(tables.at({{}, Staging::Single, 0, 1, 1}, cost::Kept::Selective));
    for (int64_t dp : {1, 4, 16})
      for (int zero : {0, 1, 2, 3})
        for (int64_t rows : {1, 4})
          for (int64_t tp : {1, 2})
            for (int64_t ep : mixes && dp > 1 ? std::vector<int64_t>{1, 2, 4} : std::vector<int64_t>{1})
              for (Staging staging : {Staging::Single, Staging::Several})
                if (dp > 1 || zero == 0)
                  compare(tables, models, space, asked, {{tp, 1, ep, ep > 1 ? 1 : 0, tp > 1, cost::Number::Fp32}, staging, zero, dp, rows},
                          staging == Staging::Single ? 1 : 2);
  }
}

// Compares tables of sizes of ep between the ends that are read: gradients of experts' weights sum over the rows of each expert,
// of which fewer experts have more.
TEST(SampledTables, AreThoseOfManyExperts) {
  test::Searching searching("deepseek-v3", 256, 256);
  auto &[context, models, asked, readers, space, tables] = searching;
  ASSERT_TRUE(tables.at({{}, Staging::Single, 0, 1, 1}, cost::Kept::Selective));
  for (int64_t tp : {1, 2})
    for (int64_t ep : {4, 8, 32})
      compare(tables, models, space, asked, {{tp, 1, ep, 1, tp > 1, cost::Number::Fp32}, Staging::Several, 1, 64, 1}, 2);
}

// Compares all numbers of a table with those of another one.
void expectEqual(const cost::Table &table, const cost::Table &other, const std::string &where) {
  auto compare = [&](const auto &own, const auto &others, const char *of) {
    ASSERT_EQ(own.size(), others.size()) << where << ", " << of;
    for (size_t i = 0; i < own.size(); ++i)
      ASSERT_EQ(own[i], others[i]) << where << ", " << of << " " << i;
  };
  cost::TableNumbers own = cost::numbersOf(table), others = cost::numbersOf(other);
  compare(own.passes.structure, others.passes.structure, "structure of passes");
  compare(own.passes.numbers, others.passes.numbers, "number of passes");
  compare(own.passes.groups, others.passes.groups, "group of passes");
  compare(own.update.structure, others.update.structure, "structure of the update");
  compare(own.update.numbers, others.update.numbers, "number of the update");
}

// Compares tables of several numbers of rows of one reading with those of readings of their own.
TEST(MarkedRows, AreThoseOfEachNumberOfRows) {
  const std::vector<cost::Kept> kept{cost::Kept::All, cost::Kept::Selective, cost::Kept::Full};
  const std::vector<int64_t> rows{1, 2, 7};
  struct Mesh {
    int64_t tp, cp, ep, pp;
    int zero;
  };
  for (const char *model : {"deepseek-v3", "gpt-oss-120b", "../../examples/llama-3.1-70b"})
    for (Mesh mesh : {Mesh{1, 1, 1, 1, 0}, {1, 1, 1, 2, 3}, {2, 1, 1, 2, 1}, {2, 2, 1, 2, 2}, {2, 1, 4, 2, 1}, {1, 2, 2, 1, 3}}) {
      const bool mixes = std::string(model) != "../../examples/llama-3.1-70b", mayCut = std::string(model) != "gpt-oss-120b"; // sinks are not cut
      if ((mesh.ep > 1 && !mixes) || (mesh.cp > 1 && !mayCut))
        continue;
      test::Searching searching(model, 256, 256);
      auto &[context, models, asked, readers, space, tables] = searching;
      asked.request.options.sequence = 2048;
      auto apply = [&](int64_t microBatch, CompileOptions &options) {
        cost::Machine machine = asked.machine;
        space.apply({{mesh.tp, mesh.cp, mesh.ep, mesh.ep > 1 ? 1 : 0, mesh.tp > 1, cost::Number::Fp32}, 8, mesh.pp, 1, microBatch, 1,
                     cost::Order::OneFOneB, mesh.zero, cost::Kept::All, {}}, options, machine);
        return machine.choices;
      };
      std::string where = std::string(model) + " tp " + std::to_string(mesh.tp) + " cp " + std::to_string(mesh.cp) + " ep " +
                          std::to_string(mesh.ep) + " zero " + std::to_string(mesh.zero);
      CompileOptions options = asked.request.options;
      const cost::Choices choices = apply(1, options);
      auto together = predict::readTablesOfRows(models, options, choices, rows, kept, mesh.pp > 1);
      ASSERT_TRUE(together) << where;
      for (size_t i = 0; i < rows.size(); ++i) {
        const cost::Choices own = apply(rows[i], options);
        auto alone = predict::readTables(models, options, own, kept, mesh.pp > 1);
        ASSERT_TRUE(alone) << where;
        for (auto split : {&predict::Tables::of, &predict::Tables::split})
          for (auto &[each, table] : (*alone).*split)
            expectEqual(table, ((*together)[i].*split).at(each), where + " rows " + std::to_string(rows[i]));
        EXPECT_EQ(alone->costs.layers, (*together)[i].costs.layers) << where;
        EXPECT_EQ(alone->costs.after, (*together)[i].costs.after) << where;
      }
    }
}

// Marks rows by no number that a size of the model is a multiple of, and by none at all where tensors are too large.
TEST(MarkedRows, AreNoOtherSize) {
  test::LoadedContext context;
  auto moduleOf = [&](std::vector<int64_t> shape) {
    mlir::OpBuilder builder(&context);
    mlir::OwningOpRef<mlir::ModuleOp> module(mlir::ModuleOp::create(builder.getUnknownLoc()));
    builder.setInsertionPointToStart(module->getBody());
    auto type = builder.getFunctionType({mlir::RankedTensorType::get(shape, builder.getF32Type())}, {});
    mlir::func::FuncOp::create(builder, builder.getUnknownLoc(), "forward", type).addEntryBlock();
    return module;
  };
  for (int64_t size : {int64_t(8), int64_t(4096), int64_t(1048573), int64_t(3) * 1048573, int64_t(1048571) * 2 - 60}) {
    auto marked = predict::markRows(*moduleOf({1, size}));
    ASSERT_TRUE(marked);
    for (int64_t padded = size; padded <= size + 64; ++padded)
      EXPECT_NE(padded % *marked, 0) << *marked << " rows mark a size of " << size;
  }
  EXPECT_FALSE(predict::markRows(*moduleOf({int64_t(1) << 50})));
  EXPECT_FALSE(predict::markRows(*moduleOf({int64_t(1) << 30, int64_t(1) << 25})));
}

} // namespace

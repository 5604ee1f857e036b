// Checks what each member of a group gets from an exchange of as many rows as there are.
#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::parallel {
namespace {

using graph::Tensor;
using Counts = std::vector<std::vector<int64_t>>; // of rows from one member to the other

constexpr int64_t kRows = 6; // of each operand

MLIRContext &context() {
  static MLIRContext context;
  context.loadDialect<func::FuncDialect, graph::GraphDialect, ParallelDialect>();
  return context;
}

Tensor tensorOf(std::vector<int64_t> shape, std::vector<double> data) {
  Tensor tensor(std::move(shape));
  tensor.data = std::move(data);
  return tensor;
}

// Returns the first elements of the rows that each member gets if a result has `room` for rows. Row k of
// member i is (10 i + k, -(10 i + k)).
std::vector<std::vector<double>> exchange(const Counts &counts, int64_t room) {
  int64_t members = counts.size();
  std::string text =
      llvm::formatv("module attributes {{parallel.mesh = #parallel.mesh<[\"ep\"={0}]>} {{\n"
                    "func.func @f(%x: tensor<{1}x2xf64>, %s: tensor<{0}xi64>, %r: tensor<{0}xi64>) {{\n"
                    "  %y = parallel.exchange_rows %x counts %s, %r over [\"ep\"]\n"
                    "      : (tensor<{1}x2xf64>, tensor<{0}xi64>, tensor<{0}xi64>) -> tensor<{2}x2xf64>\n"
                    "  return\n} }",
                    members, kRows, room);
  auto module = parseSourceString<ModuleOp>(text, &context());
  if (!module)
    return {};
  std::vector<Tensor> operands;
  for (int64_t i = 0; i < members; ++i) {
    std::vector<double> rows, sent, received;
    for (int64_t k = 0; k < kRows; ++k)
      rows.insert(rows.end(), {double(10 * i + k), -double(10 * i + k)});
    for (int64_t j = 0; j < members; ++j)
      sent.push_back(counts[i][j]), received.push_back(counts[j][i]);
    operands.push_back(tensorOf({kRows, 2}, rows));
    operands.push_back(tensorOf({members}, sent));
    operands.push_back(tensorOf({members}, received));
  }
  std::vector<const Tensor *> pointers;
  for (const Tensor &operand : operands)
    pointers.push_back(&operand);
  std::vector<std::vector<double>> result(members);
  module->walk([&](CollectiveOpInterface op) {
    for (int64_t j = 0; j < members; ++j) {
      Tensor rows = op.evaluateMember(pointers, j);
      EXPECT_EQ(rows.shape, (std::vector<int64_t>{room, 2}));
      for (int64_t k = 0; k < room; ++k) {
        EXPECT_EQ(rows.data[2 * k + 1], -rows.data[2 * k]) << "a row stays whole";
        result[j].push_back(rows.data[2 * k]);
      }
    }
  });
  return result;
}

TEST(ExchangeRows, UnevenCounts) {
  // Each gets three rows, of which members 0 and 1 get some from two members.
  auto got = exchange({{1, 2, 0}, {0, 1, 3}, {2, 0, 0}}, 5);
  ASSERT_EQ(got.size(), 3u);
  for (auto &rows : got)
    rows.resize(3);
  EXPECT_EQ(got[0], (std::vector<double>{0, 20, 21}));
  EXPECT_EQ(got[1], (std::vector<double>{1, 2, 10}));
  EXPECT_EQ(got[2], (std::vector<double>{11, 12, 13}));
}

TEST(ExchangeRows, NoRoom) {
  // Both send all to member 1, which has room for four: all of member 0 and one of its own.
  auto got = exchange({{0, 3}, {0, 4}}, 4);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1], (std::vector<double>{0, 1, 2, 10}));
  got = exchange({{0, 5}, {0, 4}}, 4);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1], (std::vector<double>{0, 1, 2, 3})) << "no row of member 1 has room";
}

TEST(ExchangeRows, NothingToSend) {
  auto got = exchange({{0, 0}, {2, 0}}, 2);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0], (std::vector<double>{10, 11}));
}

} // namespace
} // namespace llmc::parallel

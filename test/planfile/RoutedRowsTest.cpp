// Checks what checkBounds() accepts of products of routed rows and of exchanged rows.
#include "PlanBuilder.h"

#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "lib/planfile/Trace.h"

#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::planfile;

namespace {

// Returns a plan of one stage and two data-parallel ranks that runs `body` first.
template <class Body> ProgramT planOf(Body body) {
  ProgramT program = test::makeInferencePlan(1);
  StageT &stage = *program.stages[0];
  stage.arena_bytes += 1 << 16;
  auto instruction = std::make_unique<InstructionT>();
  instruction->body.Set(std::move(body));
  auto &list = stage.procedures[0]->instructions;
  list.insert(list.begin(), std::move(instruction));
  return program;
}

template <class Body> std::string faultOf(Body body) {
  support::Status status = checkBounds(planOf(std::move(body)));
  return status ? "" : status.message();
}

// Expects that a change of `make()` is refused with a text.
template <class Make, class Change> void refuses(Make make, Change change, const std::string &text) {
  auto body = make();
  change(body);
  std::string fault = faultOf(std::move(body));
  EXPECT_NE(fault.find(text), std::string::npos) << "expected '" << text << "', got '" << fault << "'";
}

// Makes C[12, 8] = A[6, 16] B[3, 16, 8], of which two rows of C share one of A.
MatmulT rows() {
  MatmulT m;
  m.batch = 3, m.m = 12, m.n = 8, m.k = 16;
  m.a = test::bytesAt(0, 6 * 16 * 4), m.b = test::bytesAt(1024, 3 * 16 * 8 * 4), m.c = test::bytesAt(4096, 12 * 8 * 4);
  m.a_strides = {0, 16, 1}, m.b_strides = {128, 8, 1}, m.c_strides = {0, 8, 1};
  m.routing = std::make_unique<RoutingT>();
  m.routing->routes = test::bytesAt(8192, 12 * 8);
  m.routing->first = std::make_unique<CoordExprT>();
  m.routing->a_share = 2;
  return m;
}

// Makes C[3, 16, 8] = the sums of 12 terms of A[6, 16] and B[12, 8].
MatmulT terms() {
  MatmulT m = rows();
  m.m = 16, m.k = 12;
  m.b = test::bytesAt(1024, 12 * 8 * 4), m.c = test::bytesAt(4096, 3 * 16 * 8 * 4);
  m.a_strides = {0, 1, 16}, m.b_strides = {0, 8, 1}, m.c_strides = {128, 8, 1};
  m.routing->form = RoutingForm::Terms;
  m.accumulate = true;
  return m;
}

TEST(RoutedRows, BothFormsAreAccepted) {
  EXPECT_EQ(faultOf(rows()), "");
  EXPECT_EQ(faultOf(terms()), "");
  MatmulT transposed = rows();
  transposed.b_strides = {128, 1, 16};
  EXPECT_EQ(faultOf(std::move(transposed)), "");
  MatmulT shared = terms();
  shared.routing->b_share = 3;
  shared.b->size = 4 * 8 * 4;
  EXPECT_EQ(faultOf(std::move(shared)), "");
}

TEST(RoutedRows, SurviveTheFile) {
  ProgramT program = planOf(rows());
  program.version = kPlanVersion;
  auto read = readProgram(writeProgram(program));
  ASSERT_TRUE(bool(read)) << read.message();
  const MatmulT &m = *(*read)->stages[0]->procedures[0]->instructions[0]->body.AsMatmul();
  ASSERT_TRUE(m.routing);
  EXPECT_EQ(m.routing->a_share, 2);
  EXPECT_EQ(m.routing->b_share, 1);
}

TEST(RoutedRows, WhatRowsAreRefused) {
  refuses(rows, [](MatmulT &m) { m.routing->form = RoutingForm(2); }, "unknown form of routing");
  refuses(rows, [](MatmulT &m) { m.batch = 0; }, "bad sizes");
  refuses(rows, [](MatmulT &m) { m.accumulate = true; }, "a product of routed rows accumulates");
  refuses(rows, [](MatmulT &m) { m.routing->a_share = 0; }, "shares of 0 and 1 of 12 routed rows");
  refuses(rows, [](MatmulT &m) { m.routing->a_share = 5; }, "shares of 5 and 1 of 12 routed rows");
  refuses(rows, [](MatmulT &m) { m.routing->b_share = 2; }, "the second is 1 for weights");
  refuses(rows, [](MatmulT &m) { m.routing->routes = nullptr; }, "routes is missing");
  refuses(rows, [](MatmulT &m) { m.routing->routes->size = 88; }, "routes has 88 bytes, 96 are needed");
  refuses(rows, [](MatmulT &m) { m.routing->routes->offset = 8196; }, "routes is not aligned");
  refuses(rows, [](MatmulT &m) { m.routing->first = nullptr; }, "the first group is missing");
  refuses(rows, [](MatmulT &m) { m.routing->first->coefs.resize(9); }, "of more coordinates than the mesh has");
  refuses(rows, [](MatmulT &m) { m.a->size = 380; }, "a has 380 bytes, 384 are needed");
  refuses(rows, [](MatmulT &m) { m.b->size = 1532; }, "b has 1532 bytes, 1536 are needed");
  refuses(rows, [](MatmulT &m) { m.c->size = 380; }, "c has 380 bytes, 384 are needed");
  refuses(rows, [](MatmulT &m) { m.a_strides[0] = 96; }, "a or c has a stride for the group");
  refuses(rows, [](MatmulT &m) { m.c_strides[0] = 96; }, "a or c has a stride for the group");
  refuses(rows, [](MatmulT &m) { m.a_strides = {0, 1, 6}; }, "routed rows are not dense");
  refuses(rows, [](MatmulT &m) { m.c_strides = {0, 1, 12}; }, "routed rows are not dense");
  refuses(rows, [](MatmulT &m) { m.c_strides[1] = 0; }, "writes elements of c more than once");
}

TEST(RoutedRows, WhatTermsAreRefused) {
  refuses(terms, [](MatmulT &m) { m.routing->b_share = 0; }, "shares of 2 and 0 of 12 routed rows");
  refuses(terms, [](MatmulT &m) { m.routing->b_share = 8; }, "shares of 2 and 8 of 12 routed rows");
  refuses(terms, [](MatmulT &m) { m.routing->routes->size = 88; }, "routes has 88 bytes, 96 are needed");
  refuses(terms, [](MatmulT &m) { m.b->size = 380; }, "b has 380 bytes, 384 are needed");
  refuses(terms, [](MatmulT &m) { m.c->size = 1532; }, "c has 1532 bytes, 1536 are needed");
  refuses(terms, [](MatmulT &m) { m.b_strides[0] = 96; }, "a or b has a stride for the group");
  refuses(terms, [](MatmulT &m) { m.b_strides = {0, 1, 12}; }, "routed rows are not dense");
  refuses(terms, [](MatmulT &m) { m.c_strides[0] = 0; }, "writes elements of c more than once");
}

// The routes are read, so that what writes them must come before.
TEST(RoutedRows, RoutesAreRead) {
  ProgramT program = planOf(rows());
  std::vector<uint64_t> read;
  forEachAccess(*program.stages[0]->procedures[0]->instructions[0], 0, [&](const ByteAccess &a) {
    if (a.read)
      read.push_back(a.begin);
  });
  EXPECT_EQ(read, (std::vector<uint64_t>{0, 1024, 8192}));
}

// Makes an exchange of rows of 8 floats, from a source of 12 rows to a destination of 20.
CollectiveT exchange() {
  CollectiveT c;
  c.kind = CollectiveKind::ExchangeRows;
  c.axes = {0};
  c.count = 12 * 8;
  c.src = test::bytesAt(0, 12 * 32), c.dst = test::bytesAt(1024, 20 * 32);
  c.rows = std::make_unique<RowCountsT>();
  c.rows->row = 8;
  c.rows->sent = test::bytesAt(2048, 16), c.rows->received = test::bytesAt(2064, 16);
  return c;
}

TEST(ExchangedRows, AreAccepted) {
  ProgramT program = planOf(exchange());
  EXPECT_TRUE(bool(checkBounds(program)));
  const InstructionT &inst = *program.stages[0]->procedures[0]->instructions[0];
  EXPECT_EQ(payloadBytes(*program.mesh, *inst.body.AsCollective()), 12u * 32);
  EXPECT_EQ(toString(CollectiveKind::ExchangeRows), "all_to_all");
  std::vector<uint64_t> read, written;
  forEachAccess(inst, 0, [&](const ByteAccess &a) { (a.read ? read : written).push_back(a.begin); });
  EXPECT_EQ(read, (std::vector<uint64_t>{0, 2048, 2064}));
  EXPECT_EQ(written, (std::vector<uint64_t>{1024}));
  for (const Finding &finding : checkCollectives(program))
    EXPECT_NE(finding.instruction, 0) << finding.message;
}

TEST(ExchangedRows, WhatIsRefused) {
  refuses(exchange, [](CollectiveT &c) { c.rows = nullptr; }, "all_to_all lacks counts of rows");
  refuses(exchange, [](CollectiveT &c) { c.kind = CollectiveKind::AllReduce; }, "all_reduce has counts of rows");
  refuses(exchange, [](CollectiveT &c) { c.rows->row = 0; }, "are not whole rows of 0 elements");
  refuses(exchange, [](CollectiveT &c) { c.rows->row = 5; }, "are not whole rows of 5 elements");
  refuses(exchange, [](CollectiveT &c) { c.rows->row = 192; }, "are not whole rows of 192 elements");
  refuses(exchange, [](CollectiveT &c) { c.dst->size = 20 * 32 - 4; }, "are not whole rows of 8 elements");
  refuses(exchange, [](CollectiveT &c) { c.src->size = 14 * 32; }, "are not whole rows of 8 elements");
  refuses(exchange, [](CollectiveT &c) { c.src->size = 11 * 32; }, "source has 352 bytes, 384 are needed");
  refuses(exchange, [](CollectiveT &c) { c.rows->sent = nullptr; }, "sent is missing");
  refuses(exchange, [](CollectiveT &c) { c.rows->sent->size = 8; }, "sent has 8 bytes, 16 are needed");
  refuses(exchange, [](CollectiveT &c) { c.rows->received->size = 8; }, "received has 8 bytes, 16 are needed");
  refuses(exchange, [](CollectiveT &c) { c.rows->received->offset = 2068; }, "received is not aligned");
  refuses(exchange, [](CollectiveT &c) { c.dst->offset = 32; }, "the destination overlaps the source");
  refuses(exchange, [](CollectiveT &c) { c.rows->sent->offset = 1024; }, "the destination overlaps a count of rows");
  refuses(exchange, [](CollectiveT &c) { c.slices = 2; }, "in 2 slices");
}

} // namespace

#include "PlanBuilder.h"

#include <cstring>
#include <functional>

using namespace llmc;
using namespace llmc::test;

namespace {

std::unique_ptr<DimShardingT> dim(std::vector<uint32_t> axes) {
  auto made = std::make_unique<DimShardingT>();
  made->axes = std::move(axes);
  return made;
}

// A plan with every table of the format in it.
std::unique_ptr<ProgramT> fullProgram() {
  auto program = makeProgram({2, 2, 2}, 1, 4096, 2, 2, 2);
  program->global_batch = 4;
  program->compiler = "test";
  auto source = std::make_unique<SourceTensorT>();
  source->name = "w";
  source->shape = {6, 4};
  source->dtype = DType::F32;
  source->file = 0;
  source->file_offset = 8;
  source->byte_size = 96;
  source->aliases = {"tied"};
  source->transposed_aliases = {"tied.T"};
  program->sources.push_back(std::move(source));
  auto file = std::make_unique<SourceFileT>();
  file->path = "w.bin";
  file->byte_size = 104;
  program->files.push_back(std::move(file));
  auto input = std::make_unique<InputBindingT>();
  input->name = "input_ids";
  input->dtype = DType::I64;
  input->local_shape = {1, 4};
  input->batch_axes = {0};
  program->inputs.push_back(std::move(input));

  FeedT feed;
  feed.dst = ref(0, 32, 32);
  add(*program, 0, std::move(feed));
  CoordExprT scalar;
  scalar.base = 3;
  scalar.coefs = {1, 0, 2};
  std::vector<CoordExprT> scalars;
  scalars.push_back(std::move(scalar));
  add(*program, 0, launch(*program, "k", refs(ref(0, 32, 32), ref(64, 8)), 4, std::move(scalars)));
  MatmulT matmul;
  matmul.batch = 2, matmul.m = 2, matmul.n = 3, matmul.k = 4;
  matmul.a = ref(128, 64), matmul.b = ref(192, 48), matmul.c = ref(256, 48);
  matmul.a_strides = {8, 4, 1}, matmul.b_strides = {0, 3, 1}, matmul.c_strides = {6, 3, 1};
  add(*program, 0, std::move(matmul));
  add(*program, 0, record(1));
  add(*program, 0, waitFor(1), 1);
  add(*program, 0, send(1, 1, ref(0, 32, 32)), 1);
  CollectiveT tied = collective(CollectiveKind::AllReduce, {1}, 2, ref(512, 8), ref(512, 8));
  tied.members = {0, 1};
  add(*program, 0, std::move(tied));
  add(*program, 1, recv(1, -1, ref(0, 32, 32)), 1);
  CopyT copy;
  copy.src = ref(0, 32, 32), copy.dst = ref(64, 32, 32);
  add(*program, 1, std::move(copy));
  FillT fill;
  fill.dst = ref(256, 64);
  add(*program, 1, std::move(fill));
  add(*program, 1, collective(CollectiveKind::AllGather, {0, 2}, 4, ref(0, 16), ref(1024, 64)));

  auto state = std::make_unique<StateShardT>();
  state->name = "w";
  state->global_shape = {6, 4};
  state->local_shape = {4, 4};
  state->dims.push_back(dim({2}));
  state->dims.push_back(dim({}));
  state->view = std::make_unique<ViewT>();
  state->view->strides = {4, 1};
  state->buffer = ref(2048, 64);
  state->owner = true;
  program->stages[0]->states.push_back(std::move(state));
  auto hostScalar = std::make_unique<HostScalarT>();
  hostScalar->name = "lr";
  hostScalar->buffer = ref(3000, 4);
  program->stages[0]->host_scalars.push_back(std::move(hostScalar));
  auto output = std::make_unique<StepOutputT>();
  output->name = "loss";
  output->buffer = ref(3004, 4);
  program->stages[1]->outputs.push_back(std::move(output));
  return program;
}

// Its matrix as 8-bit floats in blocks of 3 x 2, scales behind them.
SourceTensorT &quantise(ProgramT &program) {
  SourceTensorT &source = *program.sources[0];
  source.coding = Coding::Float8E4M3;
  source.dtype = DType::U8;
  source.byte_size = 24;
  source.scales = std::make_unique<ScalesT>();
  source.scales->file_offset = 32;
  source.scales->byte_size = 16;
  source.scales->dtype = DType::F32;
  source.scales->block = {3, 2};
  return source;
}

TEST(PlanFile, RoundTrip) {
  auto program = fullProgram();
  std::string bytes = writeProgram(*program);
  auto read = readProgram(bytes);
  ASSERT_TRUE(bool(read)) << read.message();
  EXPECT_EQ(writeProgram(**read), bytes);
  EXPECT_EQ((*read)->sources[0]->transposed_aliases[0], "tied.T");
}

// Returns the plan with the one list of `values` moved by half an element.
std::string misaligned(std::string bytes, std::vector<int64_t> values) {
  auto length = static_cast<uint32_t>(values.size());
  std::string list(reinterpret_cast<const char *>(&length), 4);
  list.append(reinterpret_cast<const char *>(values.data()), values.size() * 8);
  size_t at = bytes.find(list);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(bytes.find(list, at + 1), std::string::npos);
  for (size_t field = 0; field + 4 <= at; field += 4) {
    uint32_t offset = 0;
    std::memcpy(&offset, bytes.data() + field, 4);
    if (field + offset != at)
      continue;
    offset += 4; // the length is now the first element
    std::memcpy(bytes.data() + field, &offset, 4);
    return bytes;
  }
  ADD_FAILURE() << "no field refers to the list";
  return bytes;
}

TEST(PlanFile, ListsAreAligned) {
  auto program = fullProgram();
  quantise(*program);
  for (int i : {0, 1, 2}) {
    auto tensor = std::make_unique<TensorInfoT>();
    tensor->shape = {2, 1001 + i};
    if (i == 0) {
      program->origins[0]->tensors.push_back(std::move(tensor));
      continue;
    }
    program->ops.push_back(std::make_unique<OpInfoT>());
    (i == 1 ? program->ops.back()->operands : program->ops.back()->results)
        .push_back(std::move(tensor));
  }
  std::string bytes = writeProgram(*program);
  ASSERT_TRUE(bool(readProgram(bytes)));
  for (const std::vector<int64_t> &values :
       std::vector<std::vector<int64_t>>{{3, 2}, {2, 1001}, {2, 1002}, {2, 1003}}) {
    auto read = readProgram(misaligned(bytes, values));
    ASSERT_FALSE(bool(read)) << values[1];
    EXPECT_NE(read.message().find("a list is not aligned"), std::string::npos) << read.message();
  }
}

TEST(PlanFile, QuantisedSources) {
  auto program = fullProgram();
  quantise(*program);
  auto read = readProgram(writeProgram(*program));
  ASSERT_TRUE(bool(read)) << read.message();
  EXPECT_EQ((*read)->sources[0]->scales->block, (std::vector<int64_t>{3, 2}));
  // Blocks are of the file's rows and columns, of which there are 4 and 6.
  program->sources[0]->transposed = true;
  EXPECT_FALSE(bool(checkBounds(*program)));
  program->sources[0]->scales->byte_size = 24;
  EXPECT_TRUE(bool(checkBounds(*program)));
  program->sources[0]->coding = Coding::Float4E2M1;
  program->sources[0]->byte_size = 12;
  EXPECT_TRUE(bool(checkBounds(*program)));
}

TEST(PlanFile, CutAnywhereIsAnError) {
  std::string bytes = writeProgram(*fullProgram());
  for (size_t size = 0; size < bytes.size(); ++size) {
    auto read = readProgram(std::string_view(bytes).substr(0, size));
    EXPECT_FALSE(bool(read)) << size << " of " << bytes.size();
  }
}

// Whatever one byte says, reading ends; and what is read obeys the bounds.
TEST(PlanFile, ChangedBytesNeverCrash) {
  std::string bytes = writeProgram(*fullProgram());
  size_t accepted = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    for (unsigned char value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(value);
      auto read = readProgram(changed);
      accepted += bool(read);
      if (read) {
        auto status = checkBounds(**read);
        EXPECT_TRUE(bool(status));
      }
    }
  EXPECT_GT(accepted, 0u);
}

TEST(PlanFile, VersionAndIdentifier) {
  auto program = fullProgram();
  program->version = kPlanVersion + 1;
  auto read = readProgram(writeProgram(*program));
  ASSERT_FALSE(bool(read));
  EXPECT_NE(read.message().find(support::text("version ", kPlanVersion + 1)), std::string::npos) << read.message();
  std::string bytes = writeProgram(*fullProgram());
  bytes[8] = 'X';
  EXPECT_NE(readProgram(bytes).message().find("not a plan file"), std::string::npos);
}

// Each case breaks one thing; the message must name it.
struct Break {
  const char *what;
  std::function<void(ProgramT &)> apply;
};

BodyUnion &body(ProgramT &p, size_t stage, size_t i) {
  return p.stages[stage]->procedures[0]->instructions[i]->body;
}

void addName(ProgramT &p, const char *name, std::vector<uint32_t> axes) {
  p.mesh->names.push_back(std::make_unique<AxisProductT>());
  p.mesh->names.back()->name = name;
  p.mesh->names.back()->axes = std::move(axes);
}

void expectBroken(const Break &one) {
  auto program = fullProgram();
  one.apply(*program);
  auto result = checkBounds(*program);
  EXPECT_FALSE(bool(result)) << one.what;
  if (!result) {
    EXPECT_NE(result.message().find(one.what), std::string::npos)
        << "expected '" << one.what << "' in: " << result.message();
  }
}

TEST(PlanFile, Bounds) {
  const Break cases[] = {
      {"no model", [](ProgramT &p) { p.model.reset(); }},
      {"mesh", [](ProgramT &p) { p.mesh.reset(); }},
      {"of size 0", [](ProgramT &p) { p.mesh->axes[0]->size = 0; }},
      {"product of axes 'ep' is malformed", [](ProgramT &p) { addName(p, "ep", {9}); }},
      {"product of axes 'ep' is malformed", [](ProgramT &p) { addName(p, "ep", {0, 0}); }},
      {"product of axes 'ep' is malformed",
       [](ProgramT &p) { addName(p, "ep", {0}), addName(p, "ep", {}); }},
      {"stage axis", [](ProgramT &p) { p.stage_axis = 3; }},
      {"stages on an axis", [](ProgramT &p) { p.stages.pop_back(); }},
      {"empty batch", [](ProgramT &p) { p.micro_batches = 0; }},
      {"bad shape", [](ProgramT &p) { p.sources[0]->shape = {6, -4}; }},
      {"bad shape", [](ProgramT &p) { p.sources[0]->shape = {INT64_MAX, INT64_MAX}; }},
      {"file 1 of 1", [](ProgramT &p) { p.sources[0]->file = 1; }},
      {"do not lie in its file", [](ProgramT &p) { p.sources[0]->file_offset = 9; }},
      {"do not lie in its file", [](ProgramT &p) { p.sources[0]->file_offset = ~0ull; }},
      {"do not lie in its file", [](ProgramT &p) { p.sources[0]->byte_size = 92; }},
      {"transposed", [](ProgramT &p) { p.sources[0]->shape = {24}; }},
      {"input 'input_ids' is malformed", [](ProgramT &p) { p.inputs[0]->batch_axes = {9}; }},
      {"more dims than it has",
       [](ProgramT &p) { p.inputs[0]->dims.resize(2), p.inputs[0]->dims[0] = std::make_unique<DimShardingT>(),
                         p.inputs[0]->dims[1] = std::make_unique<DimShardingT>(); }},
      {"input 'input_ids' is malformed",
       [](ProgramT &p) { p.inputs[0]->dims.push_back(std::make_unique<DimShardingT>()),
                         p.inputs[0]->dims[0]->axes = {1}; }},
      {"has blocks, but no dim", [](ProgramT &p) { p.inputs[0]->block_order = {0}; }},
      {"or without blocks", [](ProgramT &p) { p.inputs[0]->permuted_dim = 1; }},
      {"or without blocks",
       [](ProgramT &p) { p.inputs[0]->permuted_dim = 2, p.inputs[0]->block_order = {0}; }},
      {"blocks that do not fit",
       [](ProgramT &p) { p.inputs[0]->permuted_dim = 1, p.inputs[0]->block_order = {0, 1, 2}; }},
      {"blocks that do not fit",
       [](ProgramT &p) { p.inputs[0]->permuted_dim = 1, p.inputs[0]->block_order = {0, 2}; }},
      {"holds numbers of rows",
       [](ProgramT &p) { p.inputs[0]->default_value = InputDefault::RowIds; }},
      {"covers 8 rows", [](ProgramT &p) { p.inputs[0]->local_shape = {2, 4}; }},
      {"covers 4294836226 rows",
       [](ProgramT &p) { // 2 * (2^31 - 2^16 + 1) * (2^31 + 2^16 + 1) * 2 is 4 modulo 2^64
         p.micro_batches = (1u << 31) + (1u << 16) + 1;
         p.inputs[0]->local_shape = {(int64_t(1) << 32) - (1 << 17) + 2, 1};
       }},
      {"number of slots", [](ProgramT &p) { p.stages[0]->pools[0]->slots = 0; }},
      {"table entry 1", [](ProgramT &p) { p.stages[0]->table[1]->procedure = 1; }},
      {"table entry 1", [](ProgramT &p) { p.stages[0]->table[1]->slot = 2; }},
      {"table entry 0", [](ProgramT &p) { p.stages[0]->table[0]->micro_batch = 2; }},
      {"stream 2", [](ProgramT &p) { p.stages[0]->procedures[0]->instructions[0]->stream = 2; }},
      {"origin 1", [](ProgramT &p) { p.stages[0]->procedures[0]->instructions[0]->origin = 1; }},
      {"empty body", [](ProgramT &p) { body(p, 0, 0).Reset(); }},
      {"input 1 of 1", [](ProgramT &p) { body(p, 0, 0).AsFeed()->input = 1; }},
      {"32 are needed", [](ProgramT &p) { body(p, 0, 0).AsFeed()->dst->size = 24; }},
      {"missing", [](ProgramT &p) { body(p, 0, 0).AsFeed()->dst.reset(); }},
      {"ends at byte", [](ProgramT &p) { body(p, 0, 0).AsFeed()->dst->slot_stride = 4072; }},
      {"out of range", [](ProgramT &p) { body(p, 0, 0).AsFeed()->dst->offset = ~0ull; }},
      {"not aligned", [](ProgramT &p) { body(p, 0, 0).AsFeed()->dst->offset = 4; }},
      {"kernel 1 of 1", [](ProgramT &p) { body(p, 0, 1).AsLaunch()->kernel = 1; }},
      {"-1 rows", [](ProgramT &p) { body(p, 0, 1).AsLaunch()->rows = -1; }},
      {"4 coordinates",
       [](ProgramT &p) { body(p, 0, 1).AsLaunch()->scalars[0]->coefs = {1, 2, 3, 4}; }},
      {"operand is missing", [](ProgramT &p) { body(p, 0, 1).AsLaunch()->operands[0]->buffer.reset(); }},
      {"fallback", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->fallback = 1; }},
      {"bad sizes", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->k = 0; }},
      {"not 3", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->a_strides = {1, 2}; }},
      {"stride -4", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->a_strides = {8, -4, 1}; }},
      {"a has 64 bytes", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->a_strides = {9, 4, 1}; }},
      {"b has 48 bytes", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->b_strides = {12, 3, 1}; }},
      {"more than once", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->c_strides = {0, 3, 1}; }},
      {"i64 by f32 to f32", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->a_type = DType::I64; }},
      {"f32 by f32 to bf16", [](ProgramT &p) { body(p, 0, 2).AsMatmul()->c_type = DType::BF16; }},
      {"event 4 of 4", [](ProgramT &p) { body(p, 0, 3).AsRecord()->event = 4; }},
      {"event 4 of 4", [](ProgramT &p) { body(p, 0, 4).AsWait()->event = 4; }},
      {"to stage -1", [](ProgramT &p) { body(p, 0, 5).AsSend()->delta = -1; }},
      {"to stage 2", [](ProgramT &p) { body(p, 0, 5).AsSend()->delta = 2; }},
      {"to stage 0", [](ProgramT &p) { body(p, 0, 5).AsSend()->delta = 0; }},
      {"along axis 0", [](ProgramT &p) { body(p, 0, 5).AsSend()->axis = 0; }},
      {"along axis 3 of", [](ProgramT &p) { body(p, 0, 5).AsSend()->axis = 3; }},
      {"by 0 around",
       [](ProgramT &p) { body(p, 0, 5).AsSend()->wrap = true, body(p, 0, 5).AsSend()->delta = 0; }},
      {"by -2 around",
       [](ProgramT &p) { body(p, 0, 5).AsSend()->wrap = true, body(p, 0, 5).AsSend()->delta = -2; }},
      {"no parts", [](ProgramT &p) { body(p, 0, 5).AsSend()->parts.clear(); }},
      {"bad axes", [](ProgramT &p) { body(p, 0, 6).AsCollective()->axes = {3}; }},
      {"bad axes", [](ProgramT &p) { body(p, 0, 6).AsCollective()->axes = {1, 1}; }},
      {"does not pick stages", [](ProgramT &p) { body(p, 0, 6).AsCollective()->axes = {0}; }},
      {"out of order", [](ProgramT &p) { body(p, 0, 6).AsCollective()->members = {1, 0}; }},
      {"not among", [](ProgramT &p) { body(p, 0, 6).AsCollective()->members = {1}; }},
      {"no reduction of dtype i1",
       [](ProgramT &p) { body(p, 0, 6).AsCollective()->dtype = DType::I1; }},
      {"of 0 elements", [](ProgramT &p) { body(p, 0, 6).AsCollective()->count = 0; }},
      {"source has 8 bytes", [](ProgramT &p) { body(p, 0, 6).AsCollective()->count = 3; }},
      {"overlap", [](ProgramT &p) { body(p, 0, 6).AsCollective()->dst->offset = 516; }},
      {"destination has 60", [](ProgramT &p) { body(p, 1, 3).AsCollective()->dst->size = 60; }},
      {"copies 32 bytes to 31", [](ProgramT &p) { body(p, 1, 1).AsCopy()->dst->size = 31; }},
      {"do not cover 6", [](ProgramT &p) { p.stages[0]->states[0]->local_shape = {2, 4}; }},
      {"cut over bad axes", [](ProgramT &p) { p.stages[0]->states[0]->dims[0]->axes = {1}; }},
      {"leaves the source", [](ProgramT &p) { p.stages[0]->states[0]->view->strides = {5, 1}; }},
      {"leaves the source", [](ProgramT &p) { p.stages[0]->states[0]->view->strides = {4, -1}; }},
      {"bad view", [](ProgramT &p) { p.stages[0]->states[0]->view->source = 1; }},
      {"without a source", [](ProgramT &p) { p.stages[0]->states[0]->view.reset(); }},
      {"64 are needed", [](ProgramT &p) { p.stages[0]->states[0]->buffer->size = 60; }},
      {"scalar 'lr'", [](ProgramT &p) { p.stages[0]->host_scalars[0]->buffer->offset = 4093; }},
      {"output 'loss'", [](ProgramT &p) { p.stages[1]->outputs[0]->buffer.reset(); }},
      {"arena of", [](ProgramT &p) { p.stages[0]->arena_bytes = ~0ull; }},
  };
  auto good = fullProgram();
  auto status = checkBounds(*good);
  ASSERT_TRUE(bool(status)) << status.message();
  for (const Break &one : cases)
    expectBroken(one);
}

TEST(PlanFile, BoundsOfQuantisedSources) {
  const Break cases[] = {
      {"unknown coding", [](ProgramT &p) { p.sources[0]->coding = static_cast<Coding>(9); }},
      {"not quantised", [](ProgramT &p) { quantise(p).coding = Coding::Plain; }},
      {"no bytes of a file", [](ProgramT &p) { quantise(p).dtype = DType::F32; }},
      {"no bytes of a file", [](ProgramT &p) { quantise(p).file = -1; }},
      {"scales have a bad dtype", [](ProgramT &p) { quantise(p).scales->dtype = DType::I64; }},
      {"scales have a bad dtype", [](ProgramT &p) { quantise(p).scales->dtype = static_cast<DType>(77); }},
      {"no block of two sizes", [](ProgramT &p) { quantise(p).scales->block = {4}; }},
      {"no block of two sizes", [](ProgramT &p) { quantise(p).scales->block = {0, 4}; }},
      {"scales do not lie in their file", [](ProgramT &p) { quantise(p).scales->file = 1; }},
      {"scales do not lie in their file", [](ProgramT &p) { quantise(p).scales->file_offset = ~0ull; }},
      {"scales do not lie in their file", [](ProgramT &p) { quantise(p).scales->byte_size = 8; }},
      {"scales do not lie in their file", [](ProgramT &p) { quantise(p).scales->block = {INT64_MAX, INT64_MAX}; }},
      {"bytes do not lie in its file", [](ProgramT &p) { quantise(p).coding = Coding::Float4E2M1; }},
      {"lies transposed", [](ProgramT &p) {
         quantise(p).shape = {24};
         p.sources[0]->transposed_aliases = {};
         p.sources[0]->transposed = true;
       }},
  };
  for (const Break &one : cases)
    expectBroken(one);
}

} // namespace

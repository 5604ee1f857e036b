// The arena against brute force: every byte is followed through a whole step.
#include "dialects/plan/Plan.h"
#include "mlir/Pass/PassManager.h"
#include "passes/5-schedule/Passes.h"
#include "test/passes/5-schedule/Plans.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>
#include <set>
#include <sstream>

using namespace mlir;

namespace llmc::test {
namespace {

struct Range {
  Operation *root;
  int64_t begin, end; // inside the root
};

Range rangeOf(Value buffer) {
  auto op = buffer.getDefiningOp<plan::BufferOp>();
  int64_t begin = 0, size = cast<plan::BufferType>(buffer.getType()).getByteSize();
  for (; op.getParent(); op = op.getParent().getDefiningOp<plan::BufferOp>())
    begin += op.getDisplacement().value_or(0);
  return {op, begin, begin + size};
}

// Appends the buffers that an instruction reads and writes.
void operandsOf(Operation &op, SmallVectorImpl<Value> &reads, SmallVectorImpl<Value> &writes) {
  if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
    llvm::append_range(reads, launch.getReads());
    llvm::append_range(writes, launch.getWrites());
  } else if (auto matmul = dyn_cast<plan::MatmulOp>(op)) {
    reads.append({matmul.getLhs(), matmul.getRhs()});
    if (matmul.getAccumulate())
      reads.push_back(matmul.getOut());
    writes.push_back(matmul.getOut());
  } else if (auto collective = dyn_cast<plan::CollectiveOp>(op)) {
    reads.push_back(collective.getSrc());
    writes.push_back(collective.getDst());
  } else if (auto copy = dyn_cast<plan::CopyOp>(op)) {
    reads.push_back(copy.getSrc());
    writes.push_back(copy.getDst());
  } else if (auto send = dyn_cast<plan::SendOp>(op)) {
    llvm::append_range(reads, send.getParts());
  } else {
    llvm::append_range(writes, op.getOperands()); // recv, fill, feed
  }
}

// Runs the table of a stage on an arena of marks: a write marks its bytes with
// its own number, and a read must find, byte by byte, the number of the last
// write to that byte of that buffer (of that slot). Returns the first fault.
class MarkedArena {
public:
  explicit MarkedArena(plan::StageOp stage) : stage(stage), arena(*stage.getArenaBytes(), 0) {}

  std::string run() {
    for (auto entry : stage.getTable().getAsRange<plan::EntryAttr>()) {
      auto procedure = stage.lookupSymbol<plan::ProcedureOp>(entry.getProcedure().getAttr());
      for (Operation &op : procedure.getBody().front()) {
        auto lane = op.getAttrOfType<IntegerAttr>("lane");
        slot = entry.getLane(lane ? lane.getInt() : 0).getSlot();
        SmallVector<Value> reads, writes;
        operandsOf(op, reads, writes);
        for (Value buffer : reads)
          if (!intact(rangeOf(buffer)))
            return print(op) + " reads bytes that another buffer has overwritten";
        ++now;
        for (Value buffer : writes)
          mark(rangeOf(buffer));
      }
      // Scratch ends with its procedure.
      std::erase_if(expected, [](auto &item) {
        return cast<plan::BufferOp>(std::get<0>(item.first)).getSpace() == plan::Space::scratch;
      });
    }
    return "";
  }

private:
  using Byte = std::tuple<Operation *, int64_t, int64_t>; // root, slot, byte inside the root
  int64_t slotOf(Operation *root) const {
    return cast<plan::BufferOp>(root).getSpace() == plan::Space::slot ? slot : 0;
  }
  int64_t addressOf(Operation *root) const {
    auto op = cast<plan::BufferOp>(root);
    return *op.getOffset() + slotOf(root) * op.getSlotStride().value_or(0);
  }
  bool intact(Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      auto it = expected.find({range.root, slotOf(range.root), i});
      if (it != expected.end() && arena.at(addressOf(range.root) + i) != it->second)
        return false;
    }
    return true;
  }
  void mark(Range range) {
    for (int64_t i = range.begin; i < range.end; ++i)
      expected[{range.root, slotOf(range.root), i}] = arena.at(addressOf(range.root) + i) = now;
  }
  static std::string print(Operation &op) {
    std::string text;
    llvm::raw_string_ostream(text) << op;
    return text.substr(0, 200);
  }

  plan::StageOp stage;
  std::vector<int64_t> arena;
  std::map<Byte, int64_t> expected;
  int64_t now = 0, slot = 0;
};

void expectArena(ModuleOp module, const std::string &what) {
  for (auto stage : module.getOps<plan::StageOp>()) {
    std::string fault = MarkedArena(stage).run();
    EXPECT_TRUE(fault.empty()) << what + ", stage " + std::to_string(stage.getStage()) + ": " +
                                      fault;
  }
}

TEST(Arena, EveryReadFindsItsBytes) {
  for (int i = 0; i < draws().count; ++i) {
    unsigned seed = draws().seed + i;
    std::mt19937 random(seed);
    Plan plan = drawPlan(random, 8);
    MLIRContext context;
    loadDialects(context);
    if (OwningOpRef<ModuleOp> module = schedule(context, plan))
      expectArena(*module, "seed " + std::to_string(seed) + ", " + plan.describe());
  }
}

// A stage of random copies between random buffers: no model decides the lifetimes.
std::string randomStage(std::mt19937 &random) {
  auto upTo = [&](int64_t n) { return int64_t(random() % n); };
  std::ostringstream buffers, procedures;
  int64_t slots = 1 + upTo(3), count = 0, length = 1 + upTo(40);
  std::string type = "!plan.buffer<" + std::to_string(length) + "xi8>";
  std::vector<std::string> kept;
  auto declare = [&](const char *space, bool view) {
    std::string name = "%b" + std::to_string(count++);
    int64_t before = view ? upTo(100) : 0, after = view ? upTo(100) : 0;
    std::string whole = "!plan.buffer<" + std::to_string(before + length + after) + "xi8>";
    buffers << name << (view ? "w" : "") << " = plan.buffer " << space << " : " << whole << "\n";
    if (view)
      buffers << name << " = plan.buffer " << space << " of " << name << "w : " << whole << " at "
              << before << " : " << type << "\n";
    return name;
  };
  for (const char *space : {"persistent", "step", "slot", "slot"})
    for (int64_t i = upTo(3); i >= 0; --i)
      kept.push_back(declare(space, upTo(2)));
  for (const char *name : {"forward", "backward", "update"}) {
    std::vector<std::string> all = kept;
    for (int64_t i = upTo(8); i >= 0; --i)
      all.push_back(declare("scratch", upTo(3) == 0));
    procedures << "plan.procedure @" << name << " " << name << " {\n";
    for (int64_t i = 5 + upTo(20); i >= 0; --i)
      procedures << "plan.copy " << all[upTo(all.size())] << " into " << all[upTo(all.size())]
                 << " {stream = 0 : i64} : " << type << ", " << type << "\n";
    procedures << "}\n";
  }
  std::string table;
  for (int64_t micro = 0; micro < slots + 2; ++micro)
    for (const char *name : {"forward", "backward"})
      table += std::string("#plan.entry<@") + name + ", " + std::to_string(micro) + ", " +
               std::to_string(micro % slots) + ">, ";
  return "plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, " + std::to_string(slots) +
         ">], table = [" + table +
         "#plan.entry<@update, 0, 0>]} {\n" + buffers.str() + procedures.str() + "}\n";
}

// Bytes of all buffers, if each had its own.
int64_t separateBytes(plan::StageOp stage) {
  int64_t bytes = 0;
  for (auto op : stage.getBody().getOps<plan::BufferOp>())
    if (!op.getParent())
      bytes += llvm::alignTo(cast<plan::BufferType>(op.getType()).getByteSize(), 64) *
               (op.getSpace() == plan::Space::slot ? stage.getSlotsOf(0) : 1);
  return bytes;
}

TEST(Arena, RandomLifetimesDoNotMeet) {
  int64_t saved = 0;
  for (int i = 0; i < 10 * draws().count; ++i) {
    std::mt19937 random(draws().seed + i);
    MLIRContext context;
    loadDialects(context);
    OwningOpRef<ModuleOp> module = parse(context, randomStage(random));
    PassManager passes(&context);
    passes.addPass(createAssignArena());
    std::string what = "seed " + std::to_string(draws().seed + i);
    bool ok = succeeded(passes.run(*module));
    EXPECT_TRUE(ok) << what + ": the pass fails";
    if (!ok)
      continue;
    expectArena(*module, what);
    auto stage = *module->getOps<plan::StageOp>().begin();
    int64_t separate = separateBytes(stage), arena = *stage.getArenaBytes();
    EXPECT_TRUE(arena <= separate) << what + ": the arena is larger than all buffers together";
    saved += separate - arena;
  }
  EXPECT_TRUE(saved > 0) << "no buffer has ever shared its bytes with another";
}

// Is the root named by an instruction of both procedures?
bool isKept(plan::StageOp stage, plan::BufferOp root) {
  std::set<StringRef> users;
  stage.walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (op->getParentOfType<plan::ProcedureOp>() && isa<plan::BufferType>(operand.getType()) &&
          rangeOf(operand).root == root)
        users.insert(op->getParentOfType<plan::ProcedureOp>().getSymName());
  });
  return users.count("forward") && users.count("backward");
}

// The brute force can fail: what a micro-batch keeps for its backward, in the
// same bytes for two micro-batches.
TEST(Arena, AnOverlapIsSeen) {
  Plan plan;
  plan.mesh.pp = 2;
  plan.microBatches = 2;
  plan.schedule = "gpipe";
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = schedule(context, plan);
  if (!module)
    return;
  int seen = 0, tried = 0;
  for (auto stage : module->getOps<plan::StageOp>())
    for (auto op : stage.getBody().getOps<plan::BufferOp>()) {
      if (op.getSpace() != plan::Space::slot || op.getParent() || !isKept(stage, op))
        continue;
      int64_t stride = *op.getSlotStride();
      op.setSlotStride(0);
      ++tried;
      seen += !MarkedArena(stage).run().empty();
      op.setSlotStride(stride);
    }
  EXPECT_TRUE(tried > 4);
  EXPECT_EQ(seen, tried);
}

} // namespace
} // namespace llmc::test

#include "Threads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <algorithm>
#include <memory>
#include <ucontext.h>

using namespace mlir;

namespace llmc::test {

//===-- The kernel's side ---------------------------------------------------===//

namespace {

// Lists the functions that a kernel calls, in the order of their table.
enum Question { AskThread, AskBlock, AskBlocks, AskBarrier, AskShuffle };

struct Asker {
  OpBuilder b;
  Location loc;
  Type pointer, i32, i64, index;
  Value grid; // its table of functions

  Value slot(Value table, unsigned i, Type type) {
    Value place = LLVM::GEPOp::create(b, loc, pointer, pointer, table,
                                      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    return LLVM::LoadOp::create(b, loc, type, place);
  }
  LLVM::CallOp ask(Question question, Type result, ArrayRef<Value> arguments) {
    SmallVector<Type> types = llvm::map_to_vector(arguments, [](Value v) { return v.getType(); });
    SmallVector<Value> operands{slot(grid, question, pointer)};
    operands.append(arguments.begin(), arguments.end());
    return LLVM::CallOp::create(b, loc, LLVM::LLVMFunctionType::get(result, types), operands);
  }
  void number(Operation *op, Question question) {
    Value answer = ask(question, i64, {}).getResult();
    op->replaceAllUsesWith(
        ValueRange{arith::IndexCastOp::create(b, loc, index, answer).getResult()});
    op->erase();
  }
  void replace(Operation *op) {
    b.setInsertionPoint(op);
    if (isa<gpu::ThreadIdOp>(op))
      return number(op, AskThread);
    if (isa<gpu::BlockIdOp>(op))
      return number(op, AskBlock);
    if (isa<gpu::GridDimOp>(op))
      return number(op, AskBlocks);
    if (isa<gpu::BarrierOp>(op)) {
      ask(AskBarrier, LLVM::LLVMVoidType::get(b.getContext()), {});
      return op->erase();
    }
    auto shuffle = dyn_cast<gpu::ShuffleOp>(op);
    if (!shuffle)
      return;
    Value x = shuffle.getValue();
    Type type = x.getType();
    x = type == i32 ? x : arith::BitcastOp::create(b, loc, i32, x).getResult();
    Value answer = ask(AskShuffle, i32, {x, shuffle.getOffset()}).getResult();
    answer = type == i32 ? answer : arith::BitcastOp::create(b, loc, type, answer).getResult();
    shuffle.getShuffleResult().replaceAllUsesWith(answer);
    op->erase();
  }
};

} // namespace

void askGrid(func::FuncOp kernel) {
  Block &entry = kernel.getBody().front();
  MLIRContext *context = kernel.getContext();
  Asker asker{OpBuilder::atBlockBegin(&entry),
              kernel.getLoc(),
              LLVM::LLVMPointerType::get(context),
              IntegerType::get(context, 32),
              IntegerType::get(context, 64),
              IndexType::get(context),
              {}};
  Value buffers = entry.insertArgument(0u, asker.pointer, asker.loc);
  Value scalars = entry.insertArgument(1u, asker.pointer, asker.loc);
  unsigned last = entry.getNumArguments() - 2, numbers[] = {0, 0};
  for (unsigned i = 2; i < last; ++i) {
    Value argument = entry.getArgument(i);
    bool isScalar = argument.getType() == asker.i64;
    argument.replaceAllUsesWith(
        asker.slot(isScalar ? scalars : buffers, numbers[isScalar]++, argument.getType()));
  }
  asker.grid = asker.slot(buffers, numbers[0], asker.pointer);
  SmallVector<Operation *> ops;
  kernel.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    asker.replace(op);
  kernel.setAllArgAttrs(
      SmallVector<DictionaryAttr>(kernel.getNumArguments(), DictionaryAttr::get(context)));
  entry.eraseArguments(2, last - 2);
  kernel.setFunctionType(FunctionType::get(context, entry.getArgumentTypes(), {}));
}

//===-- The grid's side -----------------------------------------------------===//

namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr int64_t kWarp = 32;

struct Fiber {
  enum State { Ready, AtBarrier, AtShuffle, Done };
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  State state = Ready;
  int32_t value = 0, distance = 0;
};

class Grid {
public:
  Grid(int64_t threads, int64_t blocks, Random &random)
      : random(random), fibers(threads), blocks(blocks) {}
  std::string runBlock(int64_t block, const std::function<void()> &kernel);

  void wait(Fiber::State state) {
    fibers[thread].state = state;
    swapcontext(&fibers[thread].context, &scheduler);
  }

  Random &random;
  std::vector<Fiber> fibers;
  int64_t thread = 0, block = 0, blocks;
  const std::function<void()> *kernel = nullptr;
  ucontext_t scheduler;
  std::vector<int64_t> ready;

private:
  void wakeWarp(int64_t warp);
};

Grid *current = nullptr;

int64_t threadNumber() { return current->thread; }
int64_t blockNumber() { return current->block; }
int64_t blockCount() { return current->blocks; }
void waitAtBarrier() { current->wait(Fiber::AtBarrier); }
int32_t exchange(int32_t value, int32_t distance) {
  Fiber &fiber = current->fibers[current->thread];
  fiber.value = value;
  fiber.distance = distance;
  current->wait(Fiber::AtShuffle);
  return current->fibers[current->thread].value;
}
void runThread() {
  (*current->kernel)();
  current->wait(Fiber::Done);
}

} // namespace

// Once all of a warp have come to the same shuffle, their values change places.
void Grid::wakeWarp(int64_t warp) {
  Fiber *lanes = &fibers[warp * kWarp];
  for (int64_t lane = 0; lane < kWarp; ++lane)
    if (lanes[lane].state != Fiber::AtShuffle || lanes[lane].distance != lanes[0].distance)
      return;
  int32_t values[kWarp];
  for (int64_t lane = 0; lane < kWarp; ++lane)
    values[lane] = lanes[lane ^ lanes[0].distance].value;
  for (int64_t lane = 0; lane < kWarp; ++lane) {
    lanes[lane].value = values[lane];
    lanes[lane].state = Fiber::Ready;
    ready.push_back(warp * kWarp + lane);
  }
}

std::string Grid::runBlock(int64_t number, const std::function<void()> &function) {
  block = number;
  kernel = &function;
  for (size_t i = 0; i < fibers.size(); ++i) {
    getcontext(&fibers[i].context);
    fibers[i].context.uc_stack.ss_sp = fibers[i].stack.get();
    fibers[i].context.uc_stack.ss_size = kStackBytes;
    fibers[i].state = Fiber::Ready;
    makecontext(&fibers[i].context, runThread, 0);
    ready.push_back(i);
  }
  // Half of the blocks let the warp that was woken last run ahead as far as it can.
  bool runsAhead = draw(random, 0, 1);
  size_t waiting = 0, done = 0;
  while (!ready.empty()) {
    if (!runsAhead)
      std::swap(ready[draw(random, 0, ready.size() - 1)], ready.back());
    thread = ready.back();
    ready.pop_back();
    swapcontext(&scheduler, &fibers[thread].context);
    Fiber::State state = fibers[thread].state;
    done += state == Fiber::Done;
    waiting += state == Fiber::AtBarrier;
    if (state == Fiber::AtShuffle)
      wakeWarp(thread / kWarp);
    if (waiting == fibers.size()) {
      for (size_t i = 0; i < fibers.size(); ++i) {
        fibers[i].state = Fiber::Ready;
        ready.push_back(i);
      }
      waiting = 0;
    }
  }
  return done == fibers.size() ? "" : "threads wait where others never come";
}

std::string runGrid(KernelFunction kernel, std::vector<void *> buffers,
                    const std::vector<int64_t> &scalars, int64_t begin, int64_t end,
                    int64_t threads, int64_t blocks, Random &random) {
  void *questions[] = {
      reinterpret_cast<void *>(threadNumber), reinterpret_cast<void *>(blockNumber),
      reinterpret_cast<void *>(blockCount), reinterpret_cast<void *>(waitAtBarrier),
      reinterpret_cast<void *>(exchange)};
  buffers.push_back(questions);
  Grid grid(threads, blocks, random);
  current = &grid;
  // Blocks run in any order.
  std::vector<int64_t> order(blocks);
  for (int64_t i = 0; i < blocks; ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (int64_t block : order) {
    std::string problem =
        grid.runBlock(block, [&] { kernel(buffers.data(), scalars.data(), begin, end); });
    if (!problem.empty())
      return problem;
  }
  return "";
}

} // namespace llmc::test

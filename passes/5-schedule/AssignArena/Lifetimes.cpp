#include "passes/5-schedule/AssignArena/Lifetimes.h"

namespace llmc {

using namespace mlir;

ProcedureOrder::ProcedureOrder(plan::ProcedureOp procedure) {
  Block &body = procedure.getBody().front();
  int64_t count = 1;
  for (Operation &op : body)
    count = std::max(count, op.getAttrOfType<IntegerAttr>("stream").getInt() + 1);
  std::vector<Clock> now(count, Clock(count, 0)); // of each stream, as it goes
  DenseMap<int64_t, Clock> recorded;              // event -> clock of its latest record
  for (Operation &op : body) {
    int64_t stream = op.getAttrOfType<IntegerAttr>("stream").getInt();
    Clock &clock = now[stream];
    if (auto wait = dyn_cast<plan::WaitOp>(op))
      if (auto it = recorded.find(wait.getEvent()); it != recorded.end())
        for (int64_t s = 0; s < count; ++s)
          clock[s] = std::max(clock[s], it->second[s]);
    clocks.push_back(clock);
    streams.push_back(stream);
    clock[stream] = clocks.size();
    if (auto record = dyn_cast<plan::RecordOp>(op))
      recorded[record.getEvent()] = clock;
  }
  end = now[0];
}

void BufferUses::add(int64_t instruction, int64_t stream) {
  if (static_cast<int64_t>(first.size()) <= stream) {
    first.resize(stream + 1, -1);
    last.resize(stream + 1, -1);
  }
  if (first[stream] < 0)
    first[stream] = instruction;
  last[stream] = instruction;
}

bool BufferUses::endBefore(const BufferUses &other, const ProcedureOrder &order) const {
  return llvm::all_of(last, [&](int64_t mine) {
    return mine < 0 || llvm::all_of(other.first, [&](int64_t theirs) {
             return theirs < 0 || (mine < theirs && order.isBefore(mine, theirs));
           });
  });
}

bool BufferUses::isInside(const ProcedureOrder &order) const {
  auto inside = [&](int64_t touch) { return touch < 0 || order.isInside(touch); };
  return llvm::all_of(first, inside) && llvm::all_of(last, inside);
}

} // namespace llmc

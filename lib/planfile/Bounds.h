// Declares the class that implements checkBounds(); internal to Bounds.cpp and
// BoundsOfInstructions.cpp. Tests: test/runtime/PlanFileTest.cpp,
// test/planfile/CheckPlanTest.cpp.
#ifndef LLMC_LIB_PLANFILE_BOUNDS_H
#define LLMC_LIB_PLANFILE_BOUNDS_H

#include "lib/planfile/Program.h"

#include <algorithm>
#include <map>
#include <set>

namespace llmc::planfile {

inline constexpr uint64_t kMaxBytes = uint64_t(1) << 46;
inline constexpr uint64_t kMaxElements = uint64_t(1) << 44;
inline constexpr size_t kMaxOperands = 33; // 32 and the scratch buffer
inline constexpr size_t kMaxGroupedMessages = 1024; // messages of a group

template <class E>
bool inEnum(E value, E largest) {
  return static_cast<unsigned>(value) <= static_cast<unsigned>(largest);
}

// Returns the product of a shape (1 if it has no dims); nullopt if a dim is less than `least` (0
// or 1) or the product exceeds kMaxElements.
inline std::optional<uint64_t> elements(const std::vector<int64_t> &shape, int64_t least = 1) {
  uint64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < least || static_cast<uint64_t>(dim) > kMaxElements / count)
      return std::nullopt;
    empty |= dim == 0;
    count *= static_cast<uint64_t>(std::max<int64_t>(dim, 1));
  }
  return empty ? 0 : count;
}

// Checks one program and returns the first fault. The members hold the position in the plan: the
// current stage, and the table entries that run the current procedure.
class Bounds {
public:
  explicit Bounds(const ProgramT &program) : program(program) {}
  support::Status run();

private:
  support::Status checkMesh();
  support::Status checkSources();
  std::string codingFault(const SourceTensorT &source) const;
  bool liesIn(int64_t file, uint64_t offset, uint64_t bytes) const;
  support::Status checkDescriptions();
  support::Status checkTensor(const TensorInfoT &tensor);
  support::Status checkInput(const InputBindingT &input);
  support::Status checkInputOfRun(const InputBindingT &input);
  support::Status checkInputCuts(const InputBindingT &input);
  support::Status checkStage(uint32_t index);
  support::Status checkChunks();
  support::Status checkTable();
  support::Status checkProcedure(const ProcedureT &procedure);
  void enterProcedure(uint32_t index);
  support::Status checkInstruction(const InstructionT &instruction);
  support::Status checkBody(const BodyUnion &body);
  support::Status checkLaunch(const LaunchT &launch);
  support::Status checkRoutes(const LaunchT &launch, const RoutesT &routes);
  support::Status checkChoice(const LaunchT &launch, const RoutesT &routes, uint64_t choices);
  support::Status checkMatmul(const MatmulT &matmul);
  support::Status checkGrouped(const MatmulT &matmul, const RoutingT &routing);
  support::Status checkWrites(const MatmulT &matmul, const int64_t (&sizes)[3]);
  support::Status checkTypes(const MatmulT &matmul);
  support::Status checkMatrix(const char *name, DType dtype, const BufferRefT *ref,
                     const std::vector<int64_t> &strides, const int64_t (&sizes)[3]);
  support::Status checkCollective(const CollectiveT &collective);
  support::Status checkMembers(const CollectiveT &collective);
  support::Status checkExchange(const CollectiveT &collective, uint64_t members);
  support::Status checkMessage(const Message &message);
  support::Status checkState(const StateShardT &state);
  support::Status checkHolders(const StateShardT &state);
  support::Status checkFlatGroup(const FlatGroupT &group);
  support::Status checkFlatPart(const StateShardT &state, uint64_t count);
  support::Status checkCut(const std::vector<int64_t> &global, const std::vector<int64_t> &local,
                  const std::vector<std::unique_ptr<DimShardingT>> &dims);
  support::Status checkView(const StateShardT &state);
  support::Status checkResult(const OutputBindingT &result);
  // Checks that `ref` is there, lies in the arena in every slot that the current entries use, has
  // at least `least` bytes, and that its offset and slot stride are multiples of `align` (bytes).
  support::Status checkBuffer(const char *name, const BufferRefT *ref, uint64_t least = 0,
                     uint64_t align = 1);
  bool overlap(const BufferRefT &a, const BufferRefT &b) const;
  bool axesValid(const std::vector<uint32_t> &axes, std::set<uint32_t> &seen) const;

  const ProgramT &program;
  const StageT *stage = nullptr;
  uint32_t stageIndex = 0;
  std::vector<const EntryT *> entries; // that run the current procedure
  std::vector<uint32_t> lastSlots;     // largest slot of each lane that all `entries` have
  std::set<std::string> results; // names seen so far, over all stages
  // Holds of each router the first routes seen so far of a kind, over all stages.
  std::map<std::pair<std::string, RoutesKind>, const RoutesT *> routers;
};

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_BOUNDS_H

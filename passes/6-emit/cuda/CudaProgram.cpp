#include "passes/6-emit/cuda/CudaProgram.h"

#include "dialects/graph/Graph.h"
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/planfile/PlanWriter.h"
#include "passes/6-emit/cuda/Assembler.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "passes/6-emit/simt/Simt.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace llmc {
namespace {

constexpr StringLiteral kMatmulReason = "cuBLASLt is to multiply matrices on a card";
constexpr StringLiteral kAttentionReason = "cuDNN is to compute attention on a card";

// Holds what the plan records of a kernel, whose launches differ in the number of rows alone.
struct Use {
  plan::LaunchOp launch; // one of them, or null
  StringRef library;     // the reason if a library does it, or empty
};

StringRef libraryFor(plan::LaunchOp launch) {
  for (Operation &op : launch.getBody().front()) {
    if (isa<graph::MatmulOp>(op))
      return kMatmulReason;
    if (isa<graph::AttentionOp, graph::AttentionGradOp>(op))
      return kAttentionReason;
  }
  return {};
}

llvm::StringMap<Use> collectUses(ModuleOp module) {
  llvm::StringMap<Use> uses;
  module.walk([&](Operation *op) {
    if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      uses.try_emplace(*launch.getKernel(), Use{launch, libraryFor(launch)});
    } else if (auto matmul = dyn_cast<plan::MatmulOp>(op)) {
      for (auto name : {matmul.getFallback(), matmul.getFallbackAccumulate()})
        if (name)
          uses.try_emplace(*name, Use{nullptr, kMatmulReason});
    } else if (auto grouped = dyn_cast<plan::GroupedMatmulOp>(op)) {
      for (auto name : {grouped.getFallback(), grouped.getFallbackAccumulate()})
        if (name)
          uses.try_emplace(*name, Use{nullptr, kMatmulReason});
    }
  });
  return uses;
}

// Returns the rows of the table that `op` looks up (or the experts or ranks that it counts), and the ids by
// which; 0 if it looks up nothing.
std::pair<int64_t, Value> lookup(Operation &op) {
  auto dim = [](Value v, bool last) {
    auto shape = cast<RankedTensorType>(v.getType()).getShape();
    return last ? shape.back() : shape.front();
  };
  if (auto gather = dyn_cast<graph::GatherOp>(op))
    return {dim(gather.getTable(), false), gather.getIds()};
  if (auto scatter = dyn_cast<graph::ScatterAddOp>(op))
    return {dim(scatter.getResult(), false), scatter.getIds()};
  if (auto take = dyn_cast<graph::TakeAlongOp>(op))
    return {dim(take.getOperand(), true), take.getIds()};
  if (auto oneHot = dyn_cast<graph::OneHotOp>(op))
    return {dim(oneHot.getResult(), true), oneHot.getIds()};
  if (auto limit = dyn_cast<graph::LimitRoutesOp>(op))
    return {limit.getExperts(), limit.getRoutes()};
  if (auto sort = dyn_cast<graph::SortRoutesOp>(op))
    return {sort.getExperts(), sort.getRoutes()};
  if (auto count = dyn_cast<graph::CountSourcesOp>(op))
    return {dim(count.getCounts(), false), count.getSources()};
  if (isa<graph::PackRowsOp, graph::UnpackRowsOp>(op)) {
    Value places = op.getOperand(1);
    return {cast<RankedTensorType>(places.getType()).getNumElements(), places};
  }
  return {0, nullptr};
}

// Returns the arguments of a launch that are used as indices, with the number of rows they
// index.
llvm::DenseMap<unsigned, int64_t> indexLimits(Block &body) {
  llvm::DenseMap<unsigned, int64_t> limits;
  for (Operation &op : body) {
    auto [rows, ids] = lookup(op);
    SmallVector<Value> open;
    if (rows > 0)
      open.push_back(ids);
    while (!open.empty()) {
      Value value = open.pop_back_val();
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        auto [at, isNew] = limits.try_emplace(argument.getArgNumber(), rows);
        at->second = std::min(at->second, rows);
      } else {
        for (Value operand : value.getDefiningOp()->getOperands())
          if (isa<IntegerType>(getElementTypeOrSelf(operand)))
            open.push_back(operand);
      }
    }
  }
  return limits;
}

// Returns whether a group computes on whole tensors in the order in which they lie in memory.
bool computesInOrder(Block &body) {
  return llvm::all_of(body.without_terminator(), [](Operation &op) {
    auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
    if (!graphOp || isa<graph::BroadcastOp, graph::OneHotOp>(op))
      return true;
    graph::EmitClass kind = graphOp.getEmitClass();
    return kind == graph::EmitClass::Elementwise || kind == graph::EmitClass::RowReduction ||
           kind == graph::EmitClass::Alias;
  });
}

void describeBuffers(plan::LaunchOp launch, const emit::CudaKernelStats &figures,
                     planfile::DeviceKernelT &kernel) {
  Block &body = launch.getBody().front();
  SmallVector<Value> values(launch.getReads());
  llvm::append_range(values, launch.getWrites());
  auto typeOf = [](Value v) { return cast<plan::BufferType>(v.getType()).getTensor(); };
  int64_t largest = 0;
  for (Value value : values)
    largest = std::max(largest, typeOf(value).getNumElements());
  auto limits = indexLimits(body);
  bool inOrder = computesInOrder(body);
  constexpr int64_t kVector = 4;
  for (auto [i, value] : llvm::enumerate(values)) {
    RankedTensorType type = typeOf(value);
    auto buffer = std::make_unique<planfile::DeviceBufferT>();
    buffer->dtype = emit::dtypeOf(type.getElementType());
    buffer->limit = i < launch.getReads().size() ? limits.lookup(i) : 0;
    buffer->access = figures.widest[i];
    buffer->streaming = inOrder && type.getElementType().isF32() && type.getRank() > 0 &&
                        type.getNumElements() == largest && largest >= kVector;
    kernel.buffers.push_back(std::move(buffer));
  }
}

// Holds what is known of a kernel's function before it is lowered.
struct Mapped {
  std::string name;
  emit::ThreadLaunch launch;
  unsigned scalars = 0;
};

// Maps functions that have a form for threads and erases the others, whose reasons go to
// `refused`.
void mapKernels(ModuleOp kernels, const llvm::StringMap<Use> &uses,
                std::vector<Mapped> &mapped, llvm::StringMap<std::string> &refused) {
  kernels.getContext()->loadDialect<gpu::GPUDialect>();
  for (auto function : llvm::make_early_inc_range(kernels.getOps<func::FuncOp>())) {
    std::string name = function.getName().str();
    Use use = uses.lookup(name);
    std::string reason = use.library.str();
    if (reason.empty()) {
      // A function that cannot be mapped is no error of the program: its diagnostic becomes the
      // reason.
      ScopedDiagnosticHandler handler(function.getContext(), [&](Diagnostic &diagnostic) {
        if (reason.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
          reason = diagnostic.str();
      });
      auto launch = succeeded(emit::mapToThreads(function)) ? emit::ThreadLaunch::of(function)
                                                            : FailureOr<emit::ThreadLaunch>();
      if (succeeded(launch)) {
        size_t buffers = use.launch.getReads().size() + use.launch.getWrites().size() +
                         (launch->scratchBytes > 0 ? 1 : 0);
        mapped.push_back({name, *launch,
                          static_cast<unsigned>(function.getNumArguments() - buffers - 2)});
        continue;
      }
      if (reason.empty())
        reason = "it cannot be dealt out to threads";
    }
    refused[name] = reason;
    function.erase();
  }
}

std::unique_ptr<planfile::DeviceKernelT> describeKernel(uint32_t number, const Mapped &mapped,
                                                        const emit::CudaKernelStats &figures,
                                                        plan::LaunchOp launch) {
  auto kernel = std::make_unique<planfile::DeviceKernelT>();
  kernel->kernel = number;
  kernel->entry = figures.entry;
  kernel->scalars = mapped.scalars;
  kernel->threads = mapped.launch.threads;
  kernel->points_per_row = mapped.launch.pointsPerRow;
  kernel->points_per_block = mapped.launch.pointsPerBlock;
  kernel->blocks_per_sm = mapped.launch.blocksPerSm;
  kernel->begin_multiple = mapped.launch.beginMultiple;
  kernel->scratch_bytes = mapped.launch.scratchBytes;
  kernel->registers = figures.registers;
  kernel->stack = figures.stack;
  kernel->spill_stores = figures.spillStores;
  kernel->spill_loads = figures.spillLoads;
  kernel->shared = figures.shared;
  std::map<unsigned, std::pair<unsigned, unsigned>> accesses;
  for (auto [bytes, count] : figures.loads)
    accesses[bytes].first = count;
  for (auto [bytes, count] : figures.stores)
    accesses[bytes].second = count;
  for (auto [bytes, counts] : accesses) {
    auto access = std::make_unique<planfile::DeviceAccessT>();
    access->bytes = bytes;
    access->loads = counts.first;
    access->stores = counts.second;
    kernel->accesses.push_back(std::move(access));
  }
  describeBuffers(launch, figures, *kernel);
  return kernel;
}

} // namespace

LogicalResult emitCudaKernels(ModuleOp module, const planfile::ProgramT &program,
                              const std::vector<std::string> &chips,
                              std::vector<planfile::DeviceImageT> &images) {
  auto nested = module.lookupSymbol<ModuleOp>(emit::kernelsModule(emit::kCudaTarget));
  if (!nested)
    return module.emitError("has no kernels for threads: the emit phase made none");
  auto assemblers = emit::Assembler::findAll();
  if (!assemblers)
    return module.emitError(llvm::toString(assemblers.takeError()));
  llvm::StringMap<Use> uses = collectUses(module);
  OwningOpRef<ModuleOp> kernels(nested.clone());
  std::vector<Mapped> mapped;
  llvm::StringMap<std::string> refused;
  mapKernels(*kernels, uses, mapped, refused);
  if (failed(emit::lowerToNvvm(*kernels)))
    return failure();
  for (const std::string &chip : chips) {
    auto made = emit::makeCubin(*kernels, chip, *assemblers);
    if (failed(made))
      return failure();
    planfile::DeviceImageT image;
    image.chip = chip;
    image.assembler = made->assembler;
    image.cubin.assign(made->cubin.begin(), made->cubin.end());
    for (auto [number, kernel] : llvm::enumerate(program.kernels)) {
      auto at = llvm::find_if(mapped, [&](const Mapped &m) { return m.name == kernel->name; });
      auto figures = llvm::find_if(
          made->kernels, [&](const emit::CudaKernelStats &f) { return f.entry == kernel->name; });
      if (at != mapped.end() && figures != made->kernels.end()) {
        image.kernels.push_back(
            describeKernel(number, *at, *figures, uses.lookup(kernel->name).launch));
        continue;
      }
      auto refusal = std::make_unique<planfile::DeviceRefusalT>();
      refusal->kernel = number;
      refusal->reason = refused.lookup(kernel->name);
      image.refusals.push_back(std::move(refusal));
    }
    images.push_back(std::move(image));
  }
  return success();
}

} // namespace llmc

// Emits one kernel per structure. A launch is looked up first by the structure of its body and
// then, once emitted, by the generated code, so that launches which differ only in the number of
// rows share a kernel.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/kernel/CountInstructions.h"
#include "passes/6-emit/matmul/Equation.h"
#include "passes/6-emit/Passes.h"
#include "llvm/ADT/StringMap.h"

namespace llmc {
#define GEN_PASS_DEF_EMITKERNELS
#include "passes/6-emit/Passes.h.inc"

using namespace mlir;
using namespace emit;

namespace {

// Holds what a launch records about its kernel.
struct Emitted {
  std::string name;
  int64_t rows = 1; // if a library does the work for every target
  SmallVector<int64_t, 2> extents;
  const KernelTarget *target = nullptr; // that rows and extents are from; null: none so far
};

class KernelTable {
public:
  // Holds the kernels of one target, in a module of their own.
  struct Version {
    const KernelTarget *target;
    ModuleOp kernels;
  };
  explicit KernelTable(SmallVector<Version> versions) : versions(std::move(versions)) {}

  // Returns the kernel with the structure `key`; if it is new, `emit` writes its version for
  // each target. `name` and `source` are for readers of the output. Fails with a diagnostic at
  // `loc`.
  FailureOr<Emitted> get(const std::string &key, StringRef name, StringRef source, Location loc,
                         function_ref<LogicalResult(Kernel &)> emit);

private:
  SmallVector<Version> versions;
  llvm::StringMap<Emitted> byStructure;
  llvm::StringMap<std::string> byCode;
  llvm::StringMap<int> count;
};

} // namespace

// Records the rows and extents of `kernel` in `emitted`, on which all targets agree that leave
// the work to no library. Fails with a diagnostic at `loc` if they differ.
static LogicalResult record(const Kernel &kernel, Location loc, Emitted &emitted) {
  if (kernel.func->hasAttr(kLibrary))
    return success();
  if (emitted.target && (kernel.rows != emitted.rows || kernel.extents != emitted.extents))
    return emitError(loc) << "the " << kernel.target.name << " kernel has " << kernel.rows
                          << " rows and the extents [" << kernel.extents << "], that of "
                          << emitted.target->name << " " << emitted.rows << " and ["
                          << emitted.extents << "]";
  emitted.rows = kernel.rows;
  emitted.extents = kernel.extents;
  emitted.target = &kernel.target;
  return success();
}

FailureOr<Emitted> KernelTable::get(const std::string &key, StringRef name, StringRef source,
                                    Location loc, function_ref<LogicalResult(Kernel &)> emit) {
  if (auto it = byStructure.find(key); it != byStructure.end())
    return it->second;
  // Diagnostics name the launch as a note, because generated code has no location in the source.
  bool said = false;
  ScopedDiagnosticHandler handler(loc->getContext(), [&](Diagnostic &diagnostic) {
    said |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
    diagnostic.attachNote(loc) << "in the kernel of this launch";
    return failure();
  });
  Emitted result;
  SmallVector<func::FuncOp> functions;
  std::string code;
  llvm::raw_string_ostream out(code);
  for (const Version &version : versions) {
    Kernel kernel(version.kernels, "kernel", UnknownLoc::get(loc->getContext()), *version.target);
    functions.push_back(kernel.func);
    bool isEmitted = succeeded(emit(kernel));
    if (!isEmitted || failed(record(kernel, loc, result))) {
      for (func::FuncOp function : functions)
        function.erase();
      if (!isEmitted && !said)
        return emitError(loc) << "no " << version.target->name << " kernel computes " << source
                              << ", and its emitter does not say why";
      return failure();
    }
    // Emitters compute each address where they need it; CSE merges equal ones.
    IRRewriter rewriter(loc->getContext());
    DominanceInfo dominance(kernel.func);
    eliminateCommonSubExpressions(rewriter, dominance, kernel.func);
    out << kernel.func;
  }
  std::string &known = byCode[code];
  bool isNew = known.empty();
  if (isNew) {
    int number = count[name]++;
    known = number ? (name + "_" + Twine(number)).str() : name.str();
  }
  for (auto [function, version] : llvm::zip(functions, versions)) {
    if (!isNew) {
      function.erase();
      continue;
    }
    function.setName(known);
    function->setAttr("plan.source", StringAttr::get(function.getContext(), source));
    function->setAttr("plan.instructions", Builder(function.getContext()).getF64FloatAttr(countInstructions(function, version.target->lanes)));
  }
  result.name = known;
  return byStructure[key] = result;
}

// Returns a key of all that decides the code of a launch: ops, attributes, types and use-def
// edges. The pointer of an attribute identifies it, because its context uniques attributes, and
// printing a table would be long.
static std::string structureOf(Block &body, unsigned reads) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::DenseMap<Value, unsigned> numbers;
  out << reads;
  for (BlockArgument argument : body.getArguments()) {
    numbers.try_emplace(argument, numbers.size());
    out << ' ' << argument.getType();
  }
  for (Operation &op : body) {
    out << '\n' << op.getName();
    if (Attribute properties = op.getPropertiesAsAttribute())
      out << properties.getAsOpaquePointer();
    for (Value operand : op.getOperands())
      out << " %" << numbers.lookup(operand);
    for (Value result : op.getResults()) {
      numbers.try_emplace(result, numbers.size());
      out << ' ' << result.getType();
    }
  }
  return text;
}

// Returns the names of the ops in order ("add_layer_norm"), as many as fit 40 characters, or
// "copy".
static std::string nameOf(Block &body) {
  std::string name;
  for (Operation &op : body.without_terminator()) {
    StringRef mnemonic = op.getName().stripDialect();
    if (!name.empty() && name.size() + mnemonic.size() > 40)
      break;
    name += (name.empty() ? "" : "_") + mnemonic.str();
  }
  return name.empty() ? "copy" : name;
}

static std::string sourceOf(Block &body) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::interleave(
      body.without_terminator(), out,
      [&](Operation &op) {
        out << op.getName() << ' ';
        llvm::interleaveComma(op.getOperandTypes(), out);
      },
      "; ");
  return text;
}

static LogicalResult emitFor(KernelTable &table, plan::LaunchOp launch) {
  Block &body = launch.getBody().front();
  unsigned reads = launch.getReads().size();
  auto emitted = table.get(structureOf(body, reads), nameOf(body), sourceOf(body), launch.getLoc(),
                           [&](Kernel &kernel) {
                             return emitLaunch(kernel, {body, reads});
                           });
  if (failed(emitted))
    return failure();
  launch.setKernel(emitted->name);
  launch.setRows(emitted->rows);
  if (!emitted->extents.empty())
    launch.setExtents(emitted->extents);
  return success();
}

// Returns a name that determines the code: the form, the types if they are not all float32
// (`_bf16`, and `_bf16_f32` to float32), and `_add` if the kernel accumulates.
static std::string nameOf(MatmulForm form, MatmulTypes types, bool accumulate) {
  StringRef name = form == MatmulForm::Columns ? "matmul_columns"
                   : form == MatmulForm::Dots  ? "matmul_dots"
                                               : "matmul_strided";
  std::string text;
  llvm::raw_string_ostream out(text);
  out << name;
  if (!types.operands.isF32())
    out << '_' << types.operands;
  if (types.result != types.operands)
    out << '_' << types.result;
  return text + (accumulate ? "_add" : "");
}

// Returns the element types of a product. Fails with an error on those that no kernel multiplies.
template <typename Op> static FailureOr<MatmulTypes> typesOf(Op matmul) {
  auto type = [](Value v) { return cast<plan::BufferType>(v.getType()).getTensor().getElementType(); };
  MatmulTypes types{type(matmul.getLhs()), type(matmul.getOut())};
  if (type(matmul.getRhs()) != types.operands || !types.areMultiplied())
    return matmul.emitOpError("cpu kernels multiply f32 by f32 to f32, bf16 by bf16 to bf16 or "
                              "f32, and f16 by f16 to f16 or f32, got ")
           << matmul.getLhs().getType() << " by " << matmul.getRhs().getType() << " to "
           << matmul.getOut().getType();
  return types;
}

// Emits the kernel for a product of this form, which overwrites or adds, and names it in the op.
template <typename Op>
static LogicalResult emitProduct(KernelTable &table, Op matmul, MatmulForm form, bool accumulate, MatmulTypes types) {
  std::string name = nameOf(form, types, accumulate);
  auto emitted = table.get(name, name, "graph.matmul", matmul.getLoc(), [&](Kernel &kernel) {
    emitMatmul(kernel, form, accumulate, types);
    return success();
  });
  if (failed(emitted))
    return failure();
  if (accumulate)
    matmul.setFallbackAccumulate(emitted->name);
  else
    matmul.setFallback(emitted->name);
  return success();
}

static LogicalResult emitFor(KernelTable &table, plan::MatmulOp matmul) {
  FailureOr<MatmulTypes> types = typesOf(matmul);
  if (failed(types))
    return failure();
  auto shape = [](Value v) { return cast<plan::BufferType>(v.getType()).getTensor().getShape(); };
  auto calls = matmulCalls(matmul.getEquation(), shape(matmul.getLhs()), shape(matmul.getRhs()),
                           shape(matmul.getOut()), matmul.getAccumulate());
  if (failed(calls))
    return matmul.emitOpError("equation does not fit the buffers");
  for (const MatmulCalls::Call &call : calls->calls)
    if (!(call.accumulate ? matmul.getFallbackAccumulate() : matmul.getFallback()) &&
        failed(emitProduct(table, matmul, calls->shape.form(), call.accumulate, *types)))
      return failure();
  return success();
}

// Emits the kernel of one expert's product, of rows that are gathered one behind the other.
static LogicalResult emitFor(KernelTable &table, plan::GroupedMatmulOp matmul) {
  FailureOr<MatmulTypes> types = typesOf(matmul);
  if (failed(types))
    return failure();
  return emitProduct(table, matmul, groupedShape(matmul).form(), matmul.getAccumulate(), *types);
}

namespace {

struct EmitKernels : impl::EmitKernelsBase<EmitKernels> {
  using EmitKernelsBase::EmitKernelsBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<StringRef> wanted(targets.begin(), targets.end());
    if (wanted.empty())
      for (const KernelTarget *target : kCpuTargets)
        wanted.push_back(target->name);
    SmallVector<KernelTable::Version> versions;
    for (const KernelTarget *target : kTargets) {
      if (auto old = module.lookupSymbol<ModuleOp>(kernelsModule(*target)))
        old.erase();
      if (llvm::is_contained(wanted, target->name))
        versions.push_back(
            {target, ModuleOp::create(b, module.getLoc(), kernelsModule(*target))});
    }
    if (versions.size() != wanted.size()) {
      module.emitError("targets of kernels are each of avx2, avx512, cuda, at most once");
      return signalPassFailure();
    }
    KernelTable table(std::move(versions));
    auto result = module.walk([&](Operation *op) {
      LogicalResult done = success();
      if (auto launch = dyn_cast<plan::LaunchOp>(op))
        done = emitFor(table, launch);
      else if (auto matmul = dyn_cast<plan::MatmulOp>(op))
        done = emitFor(table, matmul);
      else if (auto grouped = dyn_cast<plan::GroupedMatmulOp>(op))
        done = emitFor(table, grouped);
      return failed(done) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace llmc

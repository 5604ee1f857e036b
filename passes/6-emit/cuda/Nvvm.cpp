// Lowers kernels of threads to NVVM and PTX, in process.
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/Passes.h"
#include "passes/6-emit/object/LlvmAnalyses.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "passes/6-emit/simt/Simt.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;

namespace llmc::emit {

// Converts threads, barriers, shuffles and plain functions in one conversion.
static LogicalResult convertFunctions(ModuleOp kernels) {
  MLIRContext *context = kernels.getContext();
  LLVMTypeConverter converter(context);
  configureGpuToNVVMTypeConverter(converter);
  RewritePatternSet patterns(context);
  populateGpuToNVVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  // MLIR's own legality would send square roots and the like to libdevice.
  target.addLegalDialect<NVVM::NVVMDialect>();
  target.addIllegalDialect<gpu::GPUDialect, func::FuncDialect>();
  target.addLegalOp<ModuleOp>();
  return applyPartialConversion(kernels, target, std::move(patterns));
}

// Passes the block size of each kernel's launch on to the assembler (reqntid). Fails with a
// diagnostic if a function has none.
static LogicalResult setBlockSizes(ModuleOp kernels) {
  for (auto function : kernels.getOps<func::FuncOp>()) {
    auto launch = ThreadLaunch::of(function);
    if (failed(launch))
      return function.emitOpError("does not say how it wants to be launched");
    auto threads = static_cast<int32_t>(launch->threads);
    function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                      Builder(function.getContext()).getDenseI32ArrayAttr({threads, 1, 1}));
    function->removeAttr(kLaunch);
  }
  return success();
}

LogicalResult lowerToNvvm(ModuleOp kernels) {
  kernels.getContext()->loadDialect<NVVM::NVVMDialect>();
  if (failed(setBlockSizes(kernels)))
    return failure();
  PassManager before(kernels.getContext());
  before.addNestedPass<func::FuncOp>(createCSEPass());
  before.addPass(createSCFToControlFlowPass());
  before.addPass(createConvertVectorToLLVMPass());
  // Math is lowered before the NVVM conversion would call libdevice: what is left are
  // instructions.
  before.addNestedPass<func::FuncOp>(createConvertMathToLLVMPass());
  if (failed(before.run(kernels)) || failed(convertFunctions(kernels)))
    return failure();
  PassManager after(kernels.getContext());
  after.addPass(createReconcileUnrealizedCastsPass());
  after.addPass(createCSEPass());
  if (failed(after.run(kernels)))
    return failure();
  Builder b(kernels.getContext());
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>())
    if (function.isPublic() && !function.isExternal())
      function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  return success();
}

// Returns a PTX version as old as the chip allows, so that older toolkits and drivers accept it.
static StringRef ptxVersion(StringRef chip) {
  return chip == "sm_80" ? "+ptx70" : chip == "sm_90" ? "+ptx78" : "+ptx86";
}

static std::unique_ptr<llvm::TargetMachine> makeTarget(StringRef chip, std::string &error) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // As on the CPU, a * b + c is fused where the kernel asks for it and nowhere else.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, chip, ptxVersion(chip), options, llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

static void optimise(llvm::Module &module, llvm::TargetMachine &target) {
  // Kernels come with their vectors; unrolling more costs registers and time.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&target, tuning);
  LlvmAnalyses analyses(builder);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, analyses.modules);
}

// Returns the bytes of the widest access through each parameter, by the code that will run.
static std::vector<unsigned> widestAccesses(const llvm::Function &function) {
  std::vector<unsigned> widest(function.arg_size());
  const llvm::DataLayout &layout = function.getDataLayout();
  for (const llvm::Instruction &instruction : llvm::instructions(function)) {
    const llvm::Value *pointer = llvm::getLoadStorePointerOperand(&instruction);
    if (!pointer)
      continue;
    // A pointer that advances through a loop belongs to the parameter at which it began.
    llvm::SmallVector<const llvm::Value *> objects;
    llvm::getUnderlyingObjects(pointer, objects, /*LI=*/nullptr, /*MaxLookup=*/0);
    // The code generator cuts an access into pieces that its alignment allows.
    auto bytes = std::min(
        layout.getTypeStoreSize(llvm::getLoadStoreType(&instruction)).getFixedValue(),
        llvm::getLoadStoreAlignment(&instruction).value());
    for (const llvm::Value *object : objects)
      if (const auto *argument = llvm::dyn_cast<llvm::Argument>(object)) {
        unsigned &known = widest[argument->getArgNo()];
        known = std::max<unsigned>(known, bytes);
      }
  }
  return widest;
}

FailureOr<std::string> makePtx(ModuleOp kernels, StringRef chip,
                               std::vector<CudaKernelStats> &figures) {
  std::string message;
  auto target = makeTarget(chip, message);
  if (!target)
    return kernels.emitError("no code generator for ") << chip << ": " << message;
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  kernels.getContext()->appendDialectRegistry(registry);
  llvm::LLVMContext context;
  auto module = translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return kernels.emitError("kernels cannot be translated to LLVM IR");
  module->setTargetTriple(target->getTargetTriple());
  module->setDataLayout(target->createDataLayout());
  for (const llvm::Function &function : *module)
    if (function.isDeclaration() && !function.isIntrinsic())
      return kernels.emitError("a kernel calls '")
             << function.getName() << "', which no library on the device has";
  optimise(*module, *target);
  figures.clear();
  for (const llvm::Function &function : *module)
    if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel) {
      CudaKernelStats &kernel = figures.emplace_back();
      kernel.entry = function.getName().str();
      kernel.widest = widestAccesses(function);
    }

  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager codegen;
  if (target->addPassesToEmitFile(codegen, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return kernels.emitError("the code generator cannot write PTX");
  codegen.run(*module);
  return std::string(bytes.begin(), bytes.end());
}

} // namespace llmc::emit

#ifndef LLMC_PARALLEL_INTERFACES
#define LLMC_PARALLEL_INTERFACES

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::llmc::parallel";
  let description = [{
    Answers what every collective on local types is asked: over which ranks it runs,
    along which dimensions, and what each member gets. The interpreter and the
    verifiers ask these questions and never switch on the kind of op.
    Test: test/dialects/parallel/CollectivesTest.cpp.
  }];
  let methods = [
    InterfaceMethod<[{
        Returns the mesh axes that the group spans, major first. A rank's group holds
        every rank that agrees with it on all other axes, in row-major order.
      }], "::mlir::ArrayAttr", "getAxes", (ins)>,
    InterfaceMethod<[{
        Returns the coordinates along the single axis that take part, or nothing if all do.
      }], "::std::optional<::llvm::ArrayRef<int64_t>>", "getMembers", (ins), "",
      /*defaultImplementation=*/[{ return ::std::nullopt; }]>,
    InterfaceMethod<[{
        Returns whether bytes move between ranks. A slice of a replicated tensor moves none.
      }], "bool", "communicates", (ins), "", /*defaultImplementation=*/[{ return true; }]>,
    InterfaceMethod<[{
        Returns the result of member `index`, given the operands of each member, one member
        behind the other, in group order. Sums are added in that order, so that runs repeat bit for bit.
      }], "::llmc::graph::Tensor", "evaluateMember",
      (ins "::llvm::ArrayRef<const ::llmc::graph::Tensor *>":$operands, "int64_t":$index)>,
  ];
}

#endif

#ifndef LLMC_GRAPH_BASE
#define LLMC_GRAPH_BASE
include "dialects/graph/GraphDialect.td"
include "dialects/graph/GraphInterfaces.td"

class Graph_Op<string mnemonic, list<Trait> traits = []>
    : Op<Graph_Dialect, mnemonic, traits>;

// Defines an op that computes: it is pure and implements GraphOpInterface.
class Graph_ComputeOp<string mnemonic, list<string> overrides = [], list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<GraphOpInterface, overrides>], traits)>;

// Marks an op that computes each element of the results from one element of each operand.
def Graph_Broadcasting : NativeOpTrait<"Broadcasting"> { let cppNamespace = "::llmc::graph"; }

def Graph_Tensor : StaticShapeTensorOf<[AnyFloat, AnySignlessInteger]>;
def Graph_Float : StaticShapeTensorOf<[AnyFloat]>;
def Graph_Int : StaticShapeTensorOf<[AnySignlessInteger]>;
def Graph_Index : StaticShapeTensorOf<[I64]>;
def Graph_Offset : 0DTensorOf<[I64]>;

#endif

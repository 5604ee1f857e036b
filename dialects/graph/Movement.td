#ifndef LLMC_GRAPH_MOVEMENT
#define LLMC_GRAPH_MOVEMENT
include "dialects/graph/GraphBase.td"

// Result and operands have one element type.
class Graph_MovementOp<string mnemonic, list<Trait> traits = []>
    : Graph_ComputeOp<mnemonic, ["getEmitClass"], traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_ConstantOp : Graph_MovementOp<"constant", [AllTypesMatch<["value", "result"]>]> {
  let summary = "a small constant (never a weight)";
  let description = [{ Rules: C1 the value is dense. }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
}
def Graph_IotaOp : Graph_MovementOp<"iota"> {
  let summary = "the index along `dim`, plus offset";
  let description = [{ Rules: C1 dim is in range. }];
  let arguments = (ins Optional<Graph_Offset>:$offset, I64Attr:$dim);
  let results = (outs Graph_Tensor:$result);
}
def Graph_ReshapeOp : Graph_MovementOp<"reshape"> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{ Rules: C1 as many elements; C2 element types agree. }];
  let arguments = (ins Graph_Tensor:$operand);
  let results = (outs Graph_Tensor:$result);
}
def Graph_TransposeOp : Graph_MovementOp<"transpose"> {
  let summary = "result dim i is operand dim permutation[i]";
  let description = [{
    Rules: C1 one entry per dimension; C2 each dimension once; C3 result shape; C4 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Graph_Tensor:$result);
}
def Graph_BroadcastOp : Graph_MovementOp<"broadcast"> {
  let summary = "NumPy broadcast to the result's shape";
  let description = [{ Rules: C1 the shapes broadcast; C2 element types agree. }];
  let arguments = (ins Graph_Tensor:$operand);
  let results = (outs Graph_Tensor:$result);
}
def Graph_SliceOp : Graph_MovementOp<"slice"> {
  let summary = "elements starts[i] + k * steps[i] below limits[i] of every dim (steps > 0)";
  let description = [{
    Rules: C1 one entry per dimension; C2 0 <= start <= limit <= size, step >= 1;
    C3 result shape; C4 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$steps);
  let results = (outs Graph_Tensor:$result);
}
def Graph_PadOp : Graph_MovementOp<"pad"> {
  let summary = "zeros before (low), after (high) and between (interior) the elements of every dim";
  let description = [{
    Rules: C1 one entry per dimension; C2 none is negative; C3 result shape; C4 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$interior);
  let results = (outs Graph_Tensor:$result);
}
def Graph_ConcatOp : Graph_MovementOp<"concat"> {
  let summary = "operands one after the other along `dim`";
  let description = [{
    Rules: C1 at least one operand; C2 dim is in range; C3 shapes agree outside dim;
    C4 result shape; C5 element types agree.
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Graph_Tensor:$result);
}

#endif

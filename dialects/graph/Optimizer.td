#ifndef LLMC_GRAPH_OPTIMIZER
#define LLMC_GRAPH_OPTIMIZER
include "dialects/graph/GraphBase.td"

def Graph_AdamWOp : Graph_ComputeOp<"adamw"> {
  let summary = "one AdamW update (Loshchilov and Hutter, 2019, algorithm 2)";
  let description = [{
    m' = beta1 m + (1 - beta1) g; v' = beta2 v + (1 - beta2) g^2;
    p' = p - lr * (weight_decay * p + (m' / c1) / (sqrt(v' / c2) + eps)),
    where c1 = 1 - beta1^t and c2 = 1 - beta2^t are given. Scalars are
    tensor<f32> operands. `decay` off leaves the weight-decay term out.
    Example:
    ```mlir
    %p1, %m1, %v1 = graph.adamw %p, %g, %m, %v, %lr, %beta1, %beta2, %eps, %wd, %c1, %c2
        {decay = true}
        : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>,
           tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
          -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    ```
    Rules: C1 grad, m and v have param's shape; C2 the others are scalars; C3 results
    have the types of param, m and v.
  }];
  let arguments = (ins Graph_Float:$param, Graph_Float:$grad, Graph_Float:$m, Graph_Float:$v,
                       Graph_Float:$lr, Graph_Float:$beta1, Graph_Float:$beta2, Graph_Float:$eps,
                       Graph_Float:$weight_decay, Graph_Float:$c1, Graph_Float:$c2,
                       BoolAttr:$decay);
  let results = (outs Graph_Float:$new_param, Graph_Float:$new_m, Graph_Float:$new_v);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif

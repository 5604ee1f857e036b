#ifndef LLMC_GRAPH_NORM
#define LLMC_GRAPH_NORM
include "dialects/graph/GraphBase.td"

class Graph_NormOp<string mnemonic, list<string> overrides = []>
    : Graph_ComputeOp<mnemonic, !listconcat(["getEmitClass"], overrides)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Graph_LayerNormOp : Graph_NormOp<"layer_norm", ["getPrecisionRule"]> {
  let summary = "(x - mean) * rstd * scale + bias over the last dim (Ba et al., 2016)";
  let description = [{
    rstd = 1 / sqrt(variance + eps), the biased variance. mean and rstd have
    x's shape without the last dim and serve the gradient.
    Example:
    ```mlir
    %y, %mean, %rstd = graph.layer_norm %x, %w, %b {eps = 1.0e-5}
        : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>)
          -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
    ```
    Rules: C1 scale and bias are vectors of the last dim; C2 eps > 0; C3 result shapes.
  }];
  let arguments = (ins Graph_Float:$x, Graph_Float:$scale, Graph_Float:$bias, F64Attr:$eps);
  let results = (outs Graph_Float:$y, Graph_Float:$mean, Graph_Float:$rstd);
}
def Graph_LayerNormGradOp : Graph_NormOp<"layer_norm_grad"> {
  let summary = "cotangent of x: rstd * (g - mean(g) - xhat * mean(g * xhat)), g = dy * scale";
  let description = [{
    `cotangent` is dy; xhat = (x - mean) * rstd, and mean() averages over the last dim.
    Example:
    ```mlir
    %dx = graph.layer_norm_grad %dy, %x, %w, %mean, %rstd
        : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>)
          -> tensor<2x4xf32>
    ```
    Rules: C1 scale is a vector of x's last dim; C2 cotangent and result have x's type;
    C3 mean and rstd have x's shape without the last dim.
  }];
  let arguments = (ins Graph_Float:$cotangent, Graph_Float:$x, Graph_Float:$scale,
                       Graph_Float:$mean, Graph_Float:$rstd);
  let results = (outs Graph_Float:$result);
}
def Graph_LayerNormGradScaleOp : Graph_NormOp<"layer_norm_grad_scale"> {
  let summary = "cotangent of scale: sum over all rows of dy * xhat";
  let description = [{
    `cotangent` is dy; xhat = (x - mean) * rstd.
    Example:
    ```mlir
    %dw = graph.layer_norm_grad_scale %dy, %x, %mean, %rstd
        : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    ```
    Rules: C1 the result is a vector of x's last dim; C2 the cotangent has x's type;
    C3 mean and rstd have x's shape without the last dim.
  }];
  let arguments = (ins Graph_Float:$cotangent, Graph_Float:$x, Graph_Float:$mean, Graph_Float:$rstd);
  let results = (outs Graph_Float:$result);
}
def Graph_RmsNormOp : Graph_NormOp<"rms_norm", ["getPrecisionRule"]> {
  let summary = "x * rstd * scale over the last dim (Zhang and Sennrich, 2019)";
  let description = [{
    rstd = 1 / sqrt(mean(x^2) + eps) has x's shape without the last dim and serves
    the gradient. The last dim may be a head's.
    Example:
    ```mlir
    %y, %rstd = graph.rms_norm %x, %w {eps = 1.0e-6}
        : (tensor<1x3x4x2xf32>, tensor<2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
    ```
    Rules: C1 scale is a vector of the last dim; C2 eps >= 0; C3 result shapes.
  }];
  let arguments = (ins Graph_Float:$x, Graph_Float:$scale, F64Attr:$eps);
  let results = (outs Graph_Float:$y, Graph_Float:$rstd);
}
def Graph_RmsNormGradOp : Graph_NormOp<"rms_norm_grad"> {
  let summary = "cotangent of x: rstd * (g - xhat * mean(g * xhat)), g = dy * scale, xhat = x * rstd";
  let description = [{
    `cotangent` is dy; mean() averages over the last dim.
    Example:
    ```mlir
    %dx = graph.rms_norm_grad %dy, %x, %w, %rstd
        : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<2xf32>, tensor<1x3x4xf32>)
          -> tensor<1x3x4x2xf32>
    ```
    Rules: C1 scale is a vector of x's last dim; C2 cotangent and result have x's type;
    C3 rstd has x's shape without the last dim.
  }];
  let arguments = (ins Graph_Float:$cotangent, Graph_Float:$x, Graph_Float:$scale,
                       Graph_Float:$rstd);
  let results = (outs Graph_Float:$result);
}
def Graph_RmsNormGradScaleOp : Graph_NormOp<"rms_norm_grad_scale"> {
  let summary = "cotangent of scale: sum over all rows of dy * xhat, xhat = x * rstd";
  let description = [{
    Example:
    ```mlir
    %dw = graph.rms_norm_grad_scale %dy, %x, %rstd
        : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> tensor<2xf32>
    ```
    Rules: C1 the result is a vector of x's last dim; C2 the cotangent has x's type;
    C3 rstd has x's shape without the last dim.
  }];
  let arguments = (ins Graph_Float:$cotangent, Graph_Float:$x, Graph_Float:$rstd);
  let results = (outs Graph_Float:$result);
}

#endif

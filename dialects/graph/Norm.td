#ifndef LLMC_GRAPH_NORM
#define LLMC_GRAPH_NORM
include "dialects/graph/GraphBase.td"

class Graph_NormOp<string mnemonic> : Graph_ComputeOp<mnemonic, ["getEmitClass"]> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Graph_LayerNormOp : Graph_NormOp<"layer_norm"> {
  let summary = "(x - mean) * rstd * scale + bias over the last dim (Ba et al., 2016)";
  let description = [{
    rstd = 1 / sqrt(variance + eps), the biased variance. mean and rstd have
    x's shape without the last dim and serve the gradient.
    Rules: C1 scale and bias are vectors of the last dim; C2 eps > 0; C3 result shapes.
  }];
  let arguments = (ins Graph_Float:$x, Graph_Float:$scale, Graph_Float:$bias, F64Attr:$eps);
  let results = (outs Graph_Float:$y, Graph_Float:$mean, Graph_Float:$rstd);
}
def Graph_LayerNormGradOp : Graph_NormOp<"layer_norm_grad"> {
  let summary = "cotangent of x: rstd * (g - mean(g) - xhat * mean(g * xhat)), g = dy * scale";
  let description = [{
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
    Rules: C1 the result is a vector of x's last dim; C2 the cotangent has x's type;
    C3 mean and rstd have x's shape without the last dim.
  }];
  let arguments = (ins Graph_Float:$cotangent, Graph_Float:$x, Graph_Float:$mean, Graph_Float:$rstd);
  let results = (outs Graph_Float:$result);
}
def Graph_RmsNormOp : Graph_NormOp<"rms_norm"> {
  let summary = "x * rstd * scale over the last dim (Zhang and Sennrich, 2019)";
  let description = [{
    rstd = 1 / sqrt(mean(x^2) + eps) has x's shape without the last dim and serves
    the gradient. The last dim may be a head's.
    Rules: C1 scale is a vector of the last dim; C2 eps >= 0; C3 result shapes.
  }];
  let arguments = (ins Graph_Float:$x, Graph_Float:$scale, F64Attr:$eps);
  let results = (outs Graph_Float:$y, Graph_Float:$rstd);
}
def Graph_RmsNormGradOp : Graph_NormOp<"rms_norm_grad"> {
  let summary = "cotangent of x: rstd * (g - xhat * mean(g * xhat)), g = dy * scale, xhat = x * rstd";
  let description = [{
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
    Rules: C1 the result is a vector of x's last dim; C2 the cotangent has x's type;
    C3 rstd has x's shape without the last dim.
  }];
  let arguments = (ins Graph_Float:$cotangent, Graph_Float:$x, Graph_Float:$rstd);
  let results = (outs Graph_Float:$result);
}

#endif

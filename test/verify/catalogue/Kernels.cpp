// Faults of the emitters of kernels.
#include "test/verify/catalogue/Catalogue.h"
#include "test/verify/catalogue/KernelEdits.h"

namespace llmc::catalogue {

std::vector<Fault> kernelFaults() {
  constexpr Phase at = Phase::Emit;
  const char *shapes = "kernels:shapes", *mesh = "1x1x2";
  return {
      // The second coefficients of e^r and 2^r.
      {"the exponential of the loss is 0.2 % off", "gpt2", mesh, at, shapes,
       replaceNumber("sub_exp_reduce", 0.49999994, 0.52)},
      {"attention's exponential is 0.1 % off", "gpt2", mesh, at, shapes,
       replaceNumber("attention", 0.240226462, 0.245)},
      {"the exponential of gelu is 0.2 % off", "gpt2", mesh, at, shapes,
       replaceNumber("gelu", 0.49999994, 0.52)},
      {"the exponential of a sigmoid is 0.2 % off", "llama", mesh, at, shapes,
       replaceNumber("sigmoid", 0.49999994, 0.52)},
      {"a logarithm is 0.5 % off", "llama", mesh, at, shapes,
       replaceNumber("log", 0.333333313, 0.35)},
      {"a factor of gelu is 1 % off", "gpt2", mesh, at, shapes,
       replaceNumber("gelu", -1.59576917, -1.6117)},
      {"an exponential is zero below -10", "gpt2", mesh, at, "below",
       replaceNumber("sub_exp_reduce", -105, -10)},
      {"attention's softmax shifts by a sum", "gpt2", mesh, at, shapes,
       sumInPlaceOfMaximum("attention")},
      {"eps of a layer norm is ten times too large", "gpt2", mesh, at, shapes,
       replaceNumber("layer_norm", 9.99999974e-6, 1e-4)},
      {"a layer norm divides by the variance", "gpt2", mesh, at, shapes,
       leaveOutOps("layer_norm", "math.sqrt")},
      {"an RMS norm divides by the mean square", "llama", mesh, at, shapes,
       leaveOutOps("rms_norm", "math.sqrt")},
      {"an update divides by the second moment", "llama", mesh, at, shapes,
       leaveOutOps("adamw", "math.sqrt")},
      {"rotary mirrors", "llama", mesh, at, shapes, leaveOutOps("rotary", "arith.negf")},
      {"rotary has one product", "llama", mesh, at, shapes, loseProducts("rotary")},
      {"products lose their terms", "gpt2", mesh, at, shapes, loseProducts("matmul_columns")},
      {"dot products lose their terms", "llama", mesh, at, shapes, loseProducts("matmul_dots")},
      {"rows of a table are subtracted", "gpt2", mesh, at, shapes,
       renameOps("scatter_add", "arith.addf", "arith.subf")},
      {"a residual is subtracted", "gpt2", mesh, at, shapes,
       renameOps("add_add", "arith.addf", "arith.subf")},
      {"the gradient of the loss is added", "llama", mesh, at, shapes,
       renameOps("sub_exp_one_hot", "arith.subf", "arith.addf")},
      {"the norm of gradients is a product", "gpt2", mesh, at, shapes,
       renameOps("reduce_reduce", "arith.addf", "arith.mulf")},
  };
}

} // namespace llmc::catalogue

// Builds arithmetic on scalars or vectors of float32, and functions expanded into it, so that no
// kernel calls a library. Errors are in units of the last place (tested by
// test/passes/6-emit/UnitsInLastPlace.cpp).
#ifndef LLMC_PASSES_EMIT_KERNEL_MATH_H
#define LLMC_PASSES_EMIT_KERNEL_MATH_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace llmc::emit {

struct Math {
  mlir::OpBuilder &b;
  mlir::Location loc;
  using Value = mlir::Value;

  // Builds a constant with the type of `like`.
  Value f(double value, Value like);
  Value i(int64_t value, Value like);

  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);
  Value fma(Value x, Value y, Value z); // x * y + z, rounded once
  Value neg(Value x);
  Value abs(Value x);
  Value sqrt(Value x);
  Value floor(Value x);
  Value ceil(Value x);
  Value round(Value x); // halves to even
  Value less(Value x, Value y); // ordered: false for NaN
  Value select(Value condition, Value x, Value y);
  Value larger(Value x, Value y); // x > y ? x : y
  Value larger(Value x, double limit);  // a NaN stays one
  Value smaller(Value x, double limit); // the same
  // Evaluates c[0] x^n + c[1] x^(n-1) + ... by Horner's rule.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);

  Value exp(Value x);                        // 1 ulp, denormals included
  Value expNonPositive(Value x);              // x <= 0 or NaN: 2 ulp near 0; 0 below -86
  Value expBounded(Value x);                 // |x| <= 86 or NaN: 1 ulp near 0
  Value expm1NonPositive(Value x);                 // e^x - 1 for x <= 0 or NaN
  Value log(Value x);                        // 1 ulp; log(0) = -inf, log(x < 0) = NaN
  Value tanh(Value x);                       // 2.6 ulp
  Value erf(Value x);                        // 3 ulp
  Value sigmoid(Value x);                    // 2 ulp
  Value softplus(Value x);                   // 3 ulp
  // Holds the normal distribution at |x| <= 13, with an absolute error of 4e-8 and a relative
  // one of 1e-5 in the lower tail.
  struct Normal {
    Value cdf, density;
  };
  Normal normal(Value x);
  Value pow(Value x, double exponent);

  // Computes through float64 (MathWide.cpp).
  Value sin(Value x);            // 1e-7 up to |x| = 2^31, past it some value of [-1, 1]
  Value cos(Value x);            // the same
  Value power(Value x, Value y); // 1 ulp; special values as in C
  Value rem(Value x, Value y);   // exact, as fmod in C
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_MATH_H

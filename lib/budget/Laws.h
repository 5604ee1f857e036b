// Holds the scaling laws: how large a model, and on how many tokens, a training of so many FLOPs should be, and the loss
// that it reaches. Each is a power law, params = scale x FLOPs^exponent, with FLOPs = 6 x params x tokens. Test:
// test/budget/LawsTest.cpp, which holds the tables of the papers.
#ifndef LLMC_LIB_BUDGET_LAWS_H
#define LLMC_LIB_BUDGET_LAWS_H

#include <string>
#include <vector>

namespace llmc::budget {

// Holds the parametric loss of a training, e + a / params^alpha + b / tokens^beta (Hoffmann et al., 2022, equation 10).
struct LossFit {
  double e, a, b, alpha, beta;

  // Returns the part of the loss that more parameters and tokens reduce.
  double reducible(double params, double tokens) const;
  double loss(double params, double tokens) const { return e + reducible(params, tokens); }
};

struct Law {
  std::string name, source; // source: the formula and where it stands
  double scale, exponent;
  // Returns the loss, where a law has one; `isOptimal` says that the law itself chose params and tokens.
  double (*loss)(double params, double tokens, bool isOptimal) = nullptr;
  std::string lossSource = {}; // empty: it has none

  double params(double flops) const;
  // Returns the FLOPs of the training that the law would give to so many parameters, or tokens.
  double flopsOfParams(double params) const;
  double flopsOfTokens(double tokens) const;
};

// Returns 6ND, Kaplan et al., the three approaches of Hoffmann et al., and Besiroglu et al.
const std::vector<Law> &laws();

// Returns the optimum of a parametric loss for FLOPs = 6 x params x tokens (Hoffmann et al., 2022, equation 4).
Law lawOf(std::string name, std::string source, const LossFit &fit);

// Returns the coefficients of Hoffmann et al. with the third digit of exponents that Sardana et al. use.
const LossFit &sardanaFit();

// Holds a model and the tokens it is trained on.
struct Training {
  double params, tokens;
};

// Returns the training that reaches `reducible` of a loss with the fewest FLOPs in its life, 6 x params x tokens of
// training and 2 x params x inferenceTokens of inference (Sardana et al., 2023, section 2).
Training leastOfLife(const LossFit &fit, double reducible, double inferenceTokens);

} // namespace llmc::budget

#endif // LLMC_LIB_BUDGET_LAWS_H

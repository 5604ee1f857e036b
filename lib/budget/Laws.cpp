#include "lib/budget/Laws.h"

#include <cmath>

using namespace llmc;
using namespace llmc::budget;

double LossFit::reducible(double params, double tokens) const {
  return a * std::pow(params, -alpha) + b * std::pow(tokens, -beta);
}

double Law::params(double flops) const { return scale * std::pow(flops, exponent); }
double Law::flopsOfParams(double params) const { return std::pow(params / scale, 1 / exponent); }
double Law::flopsOfTokens(double tokens) const { return std::pow(6 * scale * tokens, 1 / (1 - exponent)); }

namespace {

constexpr double kPfDay = 8.64e19; // FLOPs of 1e15 a second for a day

// The published coefficients do not reproduce the paper's own projections: by them the budget of Gopher is for 32 B
// parameters, where the paper has 40 B, and models of Table A3 are 20 to 30 % too large. With the exponents 0.3392 and
// 0.2849, which round to these, or those of Sardana et al., they agree (Besiroglu et al., 2024, say why).
constexpr LossFit kHoffmann{1.69, 406.4, 410.7, 0.34, 0.28};
constexpr LossFit kSardana{1.69, 406.4, 410.7, 0.336, 0.283};
constexpr LossFit kBesiroglu{1.8172, 482.01, 2085.43, 0.3478, 0.3658};

// Puts params at 1.3e9 x C_min^0.73, C_min in PF-days. A training with the critical batch, which is what their
// frontier is made of, takes twice the least compute (equation 5.5), so C = 2 C_min and D = 2 C_min / 6 N (section
// 6.3). Hoffmann et al. (2022, appendix D.4) read it so too: 4.68 B parameters for 1e21 FLOPs.
Law kaplan() {
  Law law;
  law.name = "kaplan";
  law.source = "params = 1.3e9 (C/2)^0.73, C in PF-days of 8.64e19 FLOPs, C/2 the least compute "
               "(Kaplan et al., 2020, Table 6, equation 5.5, section 6.3); params without embeddings";
  law.exponent = 0.73;
  law.scale = 1.3e9 * std::pow(2 * kPfDay, -law.exponent);
  law.loss = [](double params, double tokens, bool isOptimal) {
    if (isOptimal)
      return std::pow(3.1e8 * 2 * kPfDay / (6 * params * tokens), 0.050);
    return std::pow(std::pow(6.4e13 / params, 0.076 / 0.103) + 1.8e13 / tokens, 0.103);
  };
  law.lossSource = "where the law chose both: (3.1e8 / (C/2))^0.050 (Kaplan et al., 2020, equation 1.3, Table 5); else "
                   "((6.4e13/N)^(0.076/0.103) + 1.8e13/D)^0.103 (equation 1.5, Table 2), of trainings that stop before "
                   "they overfit D tokens, and may repeat them";
  return law;
}

// Makes the law of an approach whose paper gives a table of sizes; the scale and the digits of the exponent behind the
// two that Table 2 has are the least squares of the logarithms of that table.
Law tabled(const char *name, const char *source, double scale, double exponent) {
  Law law;
  law.name = name, law.source = source, law.scale = scale, law.exponent = exponent;
  return law;
}

template <const LossFit &fit> double lossAt(double params, double tokens, bool) { return fit.loss(params, tokens); }

Law fitted(const char *name, const char *source, const LossFit &fit, double (*loss)(double, double, bool),
           const char *lossSource) {
  Law law = lawOf(name, source, fit);
  law.loss = loss;
  law.lossSource = lossSource;
  return law;
}

} // namespace

Law budget::lawOf(std::string name, std::string source, const LossFit &fit) {
  Law law;
  law.name = std::move(name), law.source = std::move(source);
  law.exponent = fit.beta / (fit.alpha + fit.beta);
  law.scale = std::pow(fit.alpha * fit.a / (fit.beta * fit.b), 1 / (fit.alpha + fit.beta)) * std::pow(6, -law.exponent);
  return law;
}

const LossFit &budget::sardanaFit() { return kSardana; }

const std::vector<Law> &budget::laws() {
  static const std::vector<Law> list = {
      tabled("6ND",
             "FLOPs = 6 params tokens (Kaplan et al., 2020, section 2.1); 20 tokens a parameter (Hoffmann et al., "
             "2022, Table 3, rounded)",
             std::sqrt(1.0 / 120), 0.5),
      kaplan(),
      tabled("chinchilla-1",
             "params = 0.0992 FLOPs^0.498 (Hoffmann et al., 2022, approach 1: Table 2, 0.50; scale by Table 3)",
             0.0991589, 0.4980987),
      tabled("chinchilla-2",
             "params = 0.1449 FLOPs^0.490 (Hoffmann et al., 2022, approach 2: Table 2, 0.49; scale by Table A3)",
             0.1448771, 0.4899416),
      fitted("chinchilla-3", "the least loss of FLOPs = 6 params tokens (Hoffmann et al., 2022, approach 3: equation 4); by its printed "
             "coefficients, which give fewer parameters than its own Table A3",
             kHoffmann, lossAt<kHoffmann>,
             "1.69 + 406.4/N^0.34 + 410.7/D^0.28 (Hoffmann et al., 2022, equation 10 and appendix D.3)"),
      fitted("besiroglu", "the same for a new fit to the runs of approach 3 (Besiroglu et al., 2024)", kBesiroglu,
             lossAt<kBesiroglu>, "1.8172 + 482.01/N^0.3478 + 2085.43/D^0.3658 (Besiroglu et al., 2024)"),
  };
  return list;
}

Training budget::leastOfLife(const LossFit &fit, double reducible, double inferenceTokens) {
  // Lets x be the share of parameters in the reducible loss. At the optimum the gradients of FLOPs and loss are
  // parallel: alpha x / (beta (1 - x)) = 1 + inferenceTokens / (3 tokens). The left side grows with x, and so do tokens.
  auto at = [&](double x) {
    return Training{std::pow(fit.a / (x * reducible), 1 / fit.alpha),
                    std::pow(fit.b / ((1 - x) * reducible), 1 / fit.beta)};
  };
  double low = 0, high = 1;
  for (int i = 0; i < 100; ++i) {
    double x = (low + high) / 2;
    bool isAbove = fit.alpha * x / (fit.beta * (1 - x)) > 1 + inferenceTokens / (3 * at(x).tokens);
    (isAbove ? high : low) = x;
  }
  return at(low);
}

#include "passes/2-train/Pipeline.h"

#include "passes/2-train/Passes.h"

using namespace llmc;

void llmc::buildDivisionPipeline(mlir::OpPassManager &pm, const DivisionOptions &options) {
  // Layers that a stage has in several chunks are cut apart with their states.
  DivideLayersOptions divide;
  divide.stages = options.stages;
  divide.chunks = options.chunks;
  divide.layers.assign(options.layers.begin(), options.layers.end());
  pm.addPass(createDivideLayers(divide));
}

void llmc::buildExpertPipeline(mlir::OpPassManager &pm, const ExpertOptions &options) {
  if (options.capacity > 0) {
    // An expert takes so many rows wherever it is: that is decided before anything is sent.
    LimitRoutesOptions limit;
    limit.capacity = options.capacity;
    limit.counts = options.countsDropped;
    pm.addPass(createLimitRoutes(limit));
  }
  if (options.auxLoss > 0 || options.biasRate > 0) {
    // Balance counts what tokens choose, also what is left out. It reads scores where they are made, before
    // they get low types.
    BalanceExpertsOptions balance;
    balance.auxLoss = options.auxLoss;
    balance.biasRate = options.biasRate;
    pm.addPass(createBalanceExperts(balance));
  }
  // Rows are sent to the ranks of their experts and back; on one rank they come into order.
  ExchangeRowsOptions exchange;
  exchange.ranks = options.ranks;
  exchange.budget = options.budget;
  exchange.counts = options.countsLost;
  pm.addPass(createExchangeRows(exchange));
}

void llmc::buildPrecisionPipeline(mlir::OpPassManager &pm, const std::string &element) {
  LowerPrecisionOptions precision;
  precision.element = element;
  pm.addPass(createLowerPrecision(precision));
}

void llmc::buildDropoutPipeline(mlir::OpPassManager &pm, const DropoutRates &rates) {
  if (!rates.any())
    return;
  AddDropoutOptions dropout;
  dropout.embedding = rates.embedding;
  dropout.attention = rates.attention;
  dropout.attentionOutput = rates.attentionOutput;
  dropout.mlpOutput = rates.mlpOutput;
  pm.addPass(createAddDropout(dropout));
}

void llmc::buildTrainPipeline(mlir::OpPassManager &pm, const TrainOptions &options) {
  // Dropout is part of the model that is trained. Its places are found while the model is as it was
  // raised, without casts; and being ops of the model, dropouts get types and gradients as others do.
  buildDropoutPipeline(pm, options.dropout);

  // Layers are divided when dropout has numbered its places, so that masks do not depend on where stages
  // begin, and before loss and gradients, which so follow for each part of what is cut.
  buildDivisionPipeline(pm, options.division);

  // Exchanges of rows are ops of the model, so that their types and gradients follow as those of others do.
  buildExpertPipeline(pm, options.experts);

  // Element types are decided on the model alone, before it has a loss, which is computed in f32,
  // and gradients, whose types follow.
  buildPrecisionPipeline(pm, options.element);

  // @forward maps inputs and parameters to logits. A loss needs labels, and its
  // cotangent of the logits has a closed form that is cheaper than what the
  // chain rule would give through maximum, sum and logarithm; so the loss and
  // its gradient are written together, before anything is differentiated.
  AddLossOptions loss;
  loss.scaled = options.scaled;
  pm.addPass(createAddLoss(loss));

  // Gradients of what is looked up by the positions of tokens follow from the lookup.
  OrderTokensOptions order;
  order.ranks = options.cp;
  order.zigzag = options.ring;
  pm.addPass(createOrderTokens(order));

  // One pair of values, the logits and their cotangent, now marks where to begin. Differentiation
  // comes before sharding, so that it sees one global tensor per parameter and no devices, and
  // after the folding of layers, so that the backward pass is folded too.
  DifferentiateOptions differentiate;
  differentiate.gradient = options.gradient;
  pm.addPass(createDifferentiate(differentiate));

  // Every parameter now has an accumulator that holds the sum of its gradients
  // over the tokens of a step. What a step does with it is the other function.
  AddOptimizerOptions optimizer;
  optimizer.adamw = options.adamw;
  optimizer.scaled = options.scaled;
  optimizer.skip = options.skip;
  pm.addPass(createAddOptimizer(optimizer));

  // The later phases cut and place what they find, so a gradient that is lost here would be lost
  // silently.
  if (options.verifies)
    pm.addPass(createVerifyTrain());
}

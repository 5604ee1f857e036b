// Makes requests for models of test/data, as the tests of a search need them.
#ifndef LLMC_TEST_SEARCH_REQUESTS_H
#define LLMC_TEST_SEARCH_REQUESTS_H

#include "lib/search/SampledTables.h"
#include "test/support/Context.h"

#include <gtest/gtest.h>
#include <string>

namespace llmc::test {

struct Asked {
  search::Request request;
  cost::Machine machine;
};

// Returns a request for all choices of a plan on so many H100s.
inline Asked ask(const std::string &model, int64_t gpus, int64_t rows) {
  Asked asked;
  asked.request.options.model = std::string(LLMC_TEST_DATA) + "/" + model + "/config.json";
  asked.request.options.dp = gpus;
  asked.request.gpus = asked.request.prices.gpus = gpus;
  asked.request.prices.gpu = "h100";
  std::vector<std::string> errors;
  auto machine = predict::resolve(asked.request.prices, asked.request.options, /*hasDataSize=*/true, errors);
  EXPECT_TRUE(machine && errors.empty());
  asked.machine = *machine;
  asked.request.options.dp = 1;
  asked.request.options.globalBatch = rows;
  search::Free &f = asked.request.free;
  f.dp = f.pp = f.tp = f.cp = f.ep = f.microBatch = f.virtualStages = f.schedule = f.zero = f.sequenceParallel = f.recompute = true;
  return asked;
}

// Holds a request and what reads the tables of its model.
struct Searching {
  Searching(const std::string &model, int64_t gpus, int64_t rows) : asked(ask(model, gpus, rows)) {}

  LoadedContext context;
  predict::RaisedModels models{context};
  Asked asked;
  search::Readers readers{models};
  search::Space space{asked.request, asked.machine};
  search::SampledTables tables{readers, asked.request, asked.machine, space};
};

} // namespace llmc::test

#endif // LLMC_TEST_SEARCH_REQUESTS_H

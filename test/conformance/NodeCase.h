// One case of ONNX's node tests: a model, its inputs and what they must give.
#ifndef LLMC_TEST_CONFORMANCE_NODECASE_H
#define LLMC_TEST_CONFORMANCE_NODECASE_H

#include "lib/onnx/HostTensor.h"
#include "lib/support/Error.h"
#include "onnx-ml.pb.h"

#include <set>
#include <string>
#include <vector>

namespace llmc::test {

struct NodeCase {
  std::string name;
  ::onnx::ModelProto model;
  // In the order of the graph's inputs and outputs.
  std::vector<onnximport::HostTensor> inputs, outputs;
  std::vector<::onnx::TensorProto> stored; // the inputs, as the data holds them

  std::set<std::string> ops() const; // of all nodes, subgraphs and functions included
};

// The same for a case that cannot be read.
std::set<std::string> opsOf(const std::string &path);

// Reads a folder of the suite (model.onnx, test_data_set_0) or a file of
// make_cases.py. The error tells why a case is none of tensors of numbers.
support::Result<NodeCase> readCase(const std::string &path);

// The cases in a folder (or the folder, if it is one), sorted by name.
std::vector<std::string> casesIn(const std::string &root);

// Operands of some ops shape the result, so that they must be constants: gives the
// graph's inputs that are such operands (of any node) their values in the model.
// Returns how many.
int bakeShapes(NodeCase &test);
// Makes all inputs constants: then the importer computes the outputs.
void bakeAll(NodeCase &test);

} // namespace llmc::test

#endif // LLMC_TEST_CONFORMANCE_NODECASE_H

// Reads a case of ONNX's node tests: a model, its inputs and the outputs that it must return.
#ifndef LLMC_TEST_CONFORMANCE_NODECASE_H
#define LLMC_TEST_CONFORMANCE_NODECASE_H

#include "lib/onnx/file/HostTensor.h"
#include "lib/support/Error.h"
#include "onnx-ml.pb.h"

#include <set>
#include <string>
#include <vector>

namespace llmc::test {

struct NodeCase {
  std::string name;
  ::onnx::ModelProto model;
  // Holds values in the order of the graph's inputs and outputs.
  std::vector<onnximport::HostTensor> inputs, outputs;
  std::vector<::onnx::TensorProto> stored; // the inputs, as the data holds them
  std::set<std::string> given; // ops() of the case as the suite has it
  bool hasStrings = false; // among the initializers, which were inputs

  std::set<std::string> ops() const; // of all nodes, subgraphs and functions included
  // Returns those of ops(), with their domains, that the importer does not know.
  std::vector<std::string> unknownOps() const;
};

// Reads a folder of the suite (model.onnx, test_data_set_0) or a file of
// make_cases.py.
struct ReadCase {
  NodeCase test;
  std::string problem; // why there is the model alone: data that is no tensors of numbers
};
ReadCase readCase(const std::string &path);

// Returns the cases in a folder (or the folder, if it is one), sorted by name.
std::vector<std::string> casesIn(const std::string &root);

// Turns the inputs that determine the shape of a result, and so must be constants, into
// constants: those that are such operands of any node get their values in the model. Returns how
// many.
int bakeShapes(NodeCase &test);
// Turns all inputs into constants, so that the importer computes the outputs.
void bakeAll(NodeCase &test);

} // namespace llmc::test

#endif // LLMC_TEST_CONFORMANCE_NODECASE_H

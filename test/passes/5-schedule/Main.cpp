#include "test/passes/3-shard/Draws.h"

int main(int argc, char **argv) { return llmc::test::runCases(argc, argv); }

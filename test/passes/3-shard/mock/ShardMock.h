#ifndef LLMC_TEST_PASSES_SHARD_MOCK_SHARDMOCK_H
#define LLMC_TEST_PASSES_SHARD_MOCK_SHARDMOCK_H

namespace llmc::test {

// Registers the pass `test-shard-mock`.
void registerShardMock();

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_SHARD_MOCK_SHARDMOCK_H

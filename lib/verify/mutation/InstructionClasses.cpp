// Joins instructions by union-find, over equal bytes and over collectives of the trace.
#include "lib/verify/mutation/InstructionClasses.h"

#include "lib/planfile/Trace.h"

#include <algorithm>
#include <utility>

namespace llmc::verify {

using planfile::Body;
using planfile::InstructionT;
using planfile::ProcedureKind;
using planfile::ProcedureT;
using planfile::ProgramT;

namespace {

std::string bytesOf(const InstructionT &instruction) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(planfile::Instruction::Pack(builder, &instruction));
  return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                     builder.GetSize());
}

// Returns the equal instructions of two lists, in order: a longest common subsequence if one list
// is the other with insertions.
std::vector<std::pair<uint32_t, uint32_t>> common(const ProcedureT &a, const ProcedureT &b) {
  std::vector<std::string> inB;
  for (const auto &instruction : b.instructions)
    inB.push_back(bytesOf(*instruction));
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  size_t next = 0;
  for (uint32_t i = 0; i < a.instructions.size(); ++i) {
    auto at = std::find(inB.begin() + next, inB.end(), bytesOf(*a.instructions[i]));
    if (at == inB.end())
      continue;
    pairs.push_back({i, static_cast<uint32_t>(at - inB.begin())});
    next = pairs.back().second + 1;
  }
  return pairs;
}

// Returns whether `last` is the procedure for the last micro-batch of the pass `plain`.
bool isLastMicroBatchOf(const ProcedureT &plain, const ProcedureT &last) {
  bool backward = plain.kind == ProcedureKind::Backward && last.kind == ProcedureKind::BackwardLast;
  bool weight = plain.kind == ProcedureKind::Weight && last.kind == ProcedureKind::WeightLast;
  return plain.chunk == last.chunk && (backward || weight);
}

} // namespace

InstructionClasses::InstructionClasses(const ProgramT &program) {
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    first_.emplace_back();
    for (uint32_t p = 0; p < program.stages[s]->procedures.size(); ++p) {
      first_[s].push_back(static_cast<uint32_t>(sites_.size()));
      for (size_t i = 0; i < program.stages[s]->procedures[p]->instructions.size(); ++i) {
        family_.push_back(static_cast<uint32_t>(sites_.size()));
        sites_.push_back({s, p, static_cast<int64_t>(i), -1});
      }
    }
  }
  joinLastMicroBatch(program);
  joinMembers(program);
  std::map<uint32_t, uint32_t> numbers;
  std::vector<uint32_t> family(sites_.size());
  for (uint32_t id = 0; id < sites_.size(); ++id) {
    auto [at, isNew] = numbers.try_emplace(root(id), static_cast<uint32_t>(members_.size()));
    if (isNew)
      members_.emplace_back();
    members_[at->second].push_back(sites_[id]);
    family[id] = at->second;
  }
  family_ = std::move(family);
}

void InstructionClasses::joinLastMicroBatch(const ProgramT &program) {
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    const auto &procedures = program.stages[s]->procedures;
    for (uint32_t p = 0; p < procedures.size(); ++p)
      for (uint32_t q = 0; q < procedures.size(); ++q)
        if (isLastMicroBatchOf(*procedures[p], *procedures[q]))
          for (auto [i, j] : common(*procedures[p], *procedures[q]))
            unite(first_[s][p] + i, first_[s][q] + j);
  }
}

void InstructionClasses::joinMembers(const ProgramT &program) {
  planfile::Trace trace = planfile::buildTrace(program, 1);
  auto id = [&](uint32_t n) {
    const planfile::Node &node = trace.nodes[n];
    return first_[node.stage][trace.entryOf(node).procedure] + node.index;
  };
  for (const auto &members : trace.joins)
    for (uint32_t member : members)
      unite(id(members.front()), id(member));
}

uint32_t InstructionClasses::root(uint32_t id) {
  while (family_[id] != id)
    id = family_[id] = family_[family_[id]];
  return id;
}

void InstructionClasses::unite(uint32_t a, uint32_t b) {
  a = root(a);
  b = root(b);
  family_[std::max(a, b)] = std::min(a, b);
}

} // namespace llmc::verify

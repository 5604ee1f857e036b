// Checks tensors that share arena bytes: each reader finds its own.
#include "lib/planfile/Trace.h"

#include <map>

namespace llmc::planfile {
namespace {

// Checks one procedure of a stage. Bytes of such tensors live inside of one execution, so that
// one pass in slot 0 stands for all executions.
class Tensors {
public:
  Tensors(const ProgramT &program, uint32_t stage, const ProcedureT &procedure, Findings &findings)
      : program(program), stage(stage), procedure(procedure), findings(findings) {}

  void run() {
    for (index = 0; index < procedure.instructions.size(); ++index) {
      const InstructionT &inst = *procedure.instructions[index];
      forEachAccess(inst, 0, [&](const ByteAccess &a) {
        if (a.read)
          read(a);
      });
      forEachAccess(inst, 0, [&](const ByteAccess &a) {
        if (a.write)
          write(a);
      });
    }
  }

private:
  // Holds the last writer of the bytes from the key of the map to `end`.
  struct Piece {
    uint64_t end;
    uint32_t tensor;
    size_t writer;
  };

  void read(const ByteAccess &a) {
    uint64_t known = a.begin; // the bytes before hold the right tensor
    auto it = pieces.upper_bound(a.begin);
    if (it != pieces.begin() && std::prev(it)->second.end > a.begin)
      --it;
    for (; it != pieces.end() && it->first < a.end; ++it) {
      const auto &[begin, piece] = *it;
      if (a.tensor && begin > known)
        return report(a, known, begin, nullptr);
      if (piece.tensor != a.tensor)
        return report(a, std::max(begin, a.begin), std::min(piece.end, a.end), &piece);
      known = piece.end;
    }
    if (a.tensor && known < a.end)
      report(a, known, a.end, nullptr);
  }

  void write(const ByteAccess &a) {
    auto it = pieces.upper_bound(a.begin);
    if (it != pieces.begin())
      --it;
    while (it != pieces.end() && it->first < a.end) {
      auto [begin, piece] = *it;
      if (piece.end <= a.begin) {
        ++it;
        continue;
      }
      it = pieces.erase(it);
      if (begin < a.begin)
        pieces.emplace(begin, Piece{a.begin, piece.tensor, piece.writer});
      if (a.end < piece.end)
        pieces.emplace(a.end, piece);
    }
    pieces.insert_or_assign(a.begin, Piece{a.end, a.tensor, index});
  }

  void report(const ByteAccess &a, uint64_t begin, uint64_t end, const Piece *found) {
    const InstructionT &inst = *procedure.instructions[index];
    const OriginT &origin = *program.origins[inst.origin];
    std::string text = describeBody(program, inst);
    if (!origin.nodes.empty())
      text += " for " + origin.nodes.front();
    text += " reads " + (a.tensor ? "tensor " + std::to_string(a.tensor) : "what outlives the procedure") +
            " in arena bytes [" + std::to_string(begin) + ", " + std::to_string(end) + "), where ";
    if (!found)
      text += "the procedure has written nothing yet";
    else
      text += "instruction " + std::to_string(found->writer) + ", " +
              describeBody(program, *procedure.instructions[found->writer]) + ", has left " +
              (found->tensor ? "tensor " + std::to_string(found->tensor) : "another one");
    Finding finding;
    finding.stage = static_cast<int>(stage);
    finding.procedure = procedure.name;
    finding.instruction = static_cast<int64_t>(index);
    finding.message = std::move(text);
    finding.fix = "write the tensor before it is read, and nothing else in its place until then";
    findings.add(std::move(finding));
  }

  const ProgramT &program;
  uint32_t stage;
  const ProcedureT &procedure;
  Findings &findings;
  size_t index = 0;
  std::map<uint64_t, Piece> pieces; // disjoint, by first byte
};

} // namespace

std::vector<Finding> checkTensors(const ProgramT &program) {
  Findings findings("tensors");
  for (uint32_t s = 0; s < program.stages.size(); ++s)
    for (const auto &procedure : program.stages[s]->procedures)
      Tensors(program, s, *procedure, findings).run();
  return findings.take();
}

} // namespace llmc::planfile

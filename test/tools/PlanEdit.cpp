// Edits the plan inside a compiled program. Nothing is checked: the result may
// be broken, which is what it is for.
#include "lib/advise/Request.h"
#include "lib/planfile/Trace.h"
#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"

#include <cstdlib>
#include <iostream>

using namespace llmc;
using namespace llmc::planfile;
using support::error;
using support::Result;
using support::Status;

namespace {

constexpr const char *kUsage =
    R"(usage: llmc-plan-edit PROGRAM                 list all instructions
       llmc-plan-edit PROGRAM OUT EDIT...     one or more edits, in order:
  remove STAGE PROCEDURE INDEX             the instruction, on all ranks of the stage
  swap STAGE PROCEDURE INDEX INDEX         two instructions
  stream STAGE PROCEDURE INDEX STREAM      moves an instruction to another stream
  shift STAGE PROCEDURE INDEX BYTES        moves what the instruction writes in the arena
  swap-entries STAGE INDEX INDEX           two rows of the schedule table
  kernels FILE                             another shared object in place of the kernels
  request FILE                             a record of the flags of the compilation, else none
A procedure is named or numbered. Indices are those of the plan as edited so far.
)";

void list(const ProgramT &program) {
  for (size_t s = 0; s < program.stages.size(); ++s)
    for (const auto &procedure : program.stages[s]->procedures)
      for (size_t i = 0; i < procedure->instructions.size(); ++i) {
        const InstructionT &inst = *procedure->instructions[i];
        const OriginT &origin = *program.origins[inst.origin];
        std::cout << s << " " << procedure->name << " " << i << " stream "
                  << unsigned(inst.stream) << ": " << describeBody(program, inst) << " for "
                  << origin.op;
        for (const std::string &node : origin.nodes)
          std::cout << " '" << node << "'";
        std::cout << "\n";
      }
}

// Takes arguments one by one.
class Arguments {
public:
  Arguments(int argc, char **argv) : rest(argv, argv + argc) {}
  bool empty() const { return next == rest.size(); }
  std::string word() { return empty() ? "" : rest[next++]; }
  Result<int64_t> number() {
    std::string text = word();
    char *end = nullptr;
    int64_t value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end)
      return error("'", text, "' is not a number");
    return value;
  }
  Result<size_t> index(size_t count) {
    Result<int64_t> value = number();
    if (!value)
      return value.takeError();
    if (*value < 0 || static_cast<size_t>(*value) >= count)
      return error(*value, " is outside of [0, ", count, ")");
    return static_cast<size_t>(*value);
  }
  Result<StageT *> stage(ProgramT &program) {
    Result<size_t> at = index(program.stages.size());
    if (!at)
      return at.takeError();
    return program.stages[*at].get();
  }
  Result<ProcedureT *> procedure(ProgramT &program) {
    Result<StageT *> in = stage(program);
    if (!in)
      return in.takeError();
    std::string name = word();
    auto &all = (*in)->procedures;
    for (size_t p = 0; p < all.size(); ++p)
      if (all[p]->name == name || std::to_string(p) == name)
        return all[p].get();
    return error("no procedure '", name, "'");
  }

private:
  std::vector<std::string> rest;
  size_t next = 0;
};

Status shift(InstructionT &inst, int64_t bytes) {
  bool found = false;
  auto move = [&](BufferRefT &buffer) {
    buffer.offset += static_cast<uint64_t>(bytes);
    found = true;
  };
  if (auto *launch = inst.body.AsLaunch()) {
    for (auto &operand : launch->operands)
      if (static_cast<unsigned>(operand->access) & 2)
        move(*operand->buffer);
  } else if (auto *matmul = inst.body.AsMatmul()) {
    move(*matmul->c);
  } else if (auto *collective = inst.body.AsCollective()) {
    move(*collective->dst);
  } else if (auto *recv = inst.body.AsRecv()) {
    for (auto &part : recv->parts)
      move(*part);
  }
  return found ? support::ok() : error("the instruction writes nothing that can be moved");
}

// Holds the bytes of sections beside the plan; `request` is left out where it is empty.
struct Others {
  std::string kernels, request;
};

Status edit(ProgramT &program, Others &others, Arguments &arguments) {
  std::string what = arguments.word();
  if (what == "kernels" || what == "request") {
    Result<std::string> file = support::readFile(arguments.word());
    if (!file)
      return file.takeError();
    (what == "kernels" ? others.kernels : others.request) = *file;
    return support::ok();
  }
  if (what == "swap-entries") {
    Result<StageT *> stage = arguments.stage(program);
    if (!stage)
      return stage.takeError();
    auto &table = (*stage)->table;
    Result<size_t> a = arguments.index(table.size()), b = arguments.index(table.size());
    if (!a || !b)
      return a ? b.takeError() : a.takeError();
    std::swap(table[*a], table[*b]);
    return support::ok();
  }
  if (what != "remove" && what != "swap" && what != "stream" && what != "shift")
    return error("unknown edit '", what, "'");
  Result<ProcedureT *> procedure = arguments.procedure(program);
  if (!procedure)
    return procedure.takeError();
  auto &list = (*procedure)->instructions;
  Result<size_t> at = arguments.index(list.size());
  if (!at)
    return at.takeError();
  if (what == "remove") {
    list.erase(list.begin() + static_cast<ptrdiff_t>(*at));
    return support::ok();
  }
  if (what == "swap") {
    Result<size_t> other = arguments.index(list.size());
    if (!other)
      return other.takeError();
    std::swap(list[*at], list[*other]);
    return support::ok();
  }
  Result<int64_t> value = arguments.number();
  if (!value)
    return value.takeError();
  if (what == "shift")
    return shift(*list[*at], *value);
  list[*at]->stream = static_cast<uint8_t>(*value);
  return support::ok();
}

Status run(int argc, char **argv) {
  if (argc < 2 || argc == 3)
    return error("what to edit?\n", kUsage);
  Result<Payload> payload = Payload::open(argv[1]);
  if (!payload)
    return payload.takeError();
  Result<std::string_view> plan = payload->section(kPlanSection);
  Result<std::string_view> kernels = payload->section(kKernelsSection);
  if (!plan || !kernels)
    return plan ? kernels.takeError() : plan.takeError();
  Result<std::unique_ptr<ProgramT>> program = readProgram(*plan);
  if (!program)
    return program.takeError();
  if (argc == 2) {
    list(**program);
    return support::ok();
  }
  Arguments arguments(argc - 3, argv + 3);
  Others others{std::string(*kernels), ""};
  while (!arguments.empty())
    if (Status s = edit(**program, others, arguments); !s)
      return s;
  std::string bytes = writeProgram(**program);
  // Kernels of other processors would not be edited: these run on all.
  std::vector<Section> sections = {{std::string(kPlanSection), bytes}, {std::string(kKernelsSection), others.kernels}};
  if (!others.request.empty())
    sections.push_back({std::string(advise::kRequestSection), others.request});
  return writePayload(argv[1], sections, argv[2]);
}

} // namespace

int main(int argc, char **argv) {
  Status status = run(argc, argv);
  if (!status)
    std::cerr << "llmc-plan-edit: error: " << status.message() << "\n";
  return status ? 0 : 1;
}

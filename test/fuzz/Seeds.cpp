// Writes what is no file of test/data: seeds of the plan, payload and token
// targets. llmc-fuzz-seeds DIR makes DIR/plan/..., DIR/payload/..., DIR/tokens/...
#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"
#include "lib/support/OutputFile.h"
#include "test/planfile/ChunkPlan.h"
#include "test/planfile/PlanBuilder.h"

#include <cstdio>
#include <cstring>
#include <elf.h>

using namespace llmc;

static bool write(const std::string &folder, const std::string &name, std::string_view bytes) {
  if (!support::makeDirectory(folder))
    return false;
  auto file = support::OutputFile::create(folder + "/" + name);
  return file && file->write(bytes) && file->commit();
}

// The smallest executable to which a payload can be appended.
static std::string bareExecutable() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 1;
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  return bytes + std::string(sizeof(Elf64_Shdr), '\0');
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  std::string to = argv[1];
  bool good = true;
  for (bool gpipe : {false, true})
    for (unsigned stages : {1u, 2u, 3u}) {
      planfile::ProgramT program = test::makePlan({gpipe, stages, 4, 2, 1});
      program.version = planfile::kPlanVersion;
      std::string plan = planfile::writeProgram(program);
      std::string name = std::string(gpipe ? "gpipe" : "1f1b") + std::to_string(stages);
      good = good && write(to + "/plan", name, plan);
      std::string exe = to + "/payload/bare";
      good = good && write(to + "/payload", "bare", bareExecutable());
      planfile::Section sections[] = {{"plan", std::string_view(plan).substr(0, 100)},
                                      {"kernels", "not a shared object"}};
      good = good && planfile::writePayload(exe, sections, to + "/payload/" + name);
    }
  for (unsigned stages : {2u, 3u}) {
    auto program = test::makeChunkPlan({.stages = stages, .microBatches = 3});
    good = good && write(to + "/plan", "chunks" + std::to_string(stages),
                         planfile::writeProgram(*program));
  }
  std::string rows(std::string("\x64\0\0\0\x03\x01", 6));
  for (char flags = 0; flags < 2; ++flags) {
    std::string tokens = rows + flags;
    for (char token = 0; token < 50; ++token)
      tokens += {token, '\0'};
    good = good && write(to + "/tokens", "order" + std::to_string(flags), tokens);
  }
  // Both files of a pair: one sequence of 40 bytes as tokens, one document.
  std::string pair = rows + '\x08' + std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0\1", 18);
  for (uint64_t number : {uint64_t(1), uint64_t(2)})
    pair.append(reinterpret_cast<const char *>(&number), sizeof number);
  pair += {40, '\0', '\0', '\0'};
  for (uint64_t number : {uint64_t(0), uint64_t(0), uint64_t(1)})
    pair.append(reinterpret_cast<const char *>(&number), sizeof number);
  good = good && write(to + "/tokens", "pair", pair);
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (5, 4), }        \n";
  std::string array = rows + '\x02' + std::string("\x93NUMPY\x01\0", 8);
  array += {char(header.size()), '\0'};
  array += header;
  for (char token = 0; token < 20; ++token)
    array += {token, '\0', '\0', '\0'};
  good = good && write(to + "/tokens", "array", array);
  if (!good)
    std::fprintf(stderr, "cannot write seeds to '%s'\n", to.c_str());
  return good ? 0 : 1;
}

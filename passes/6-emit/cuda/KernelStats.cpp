#include "passes/6-emit/cuda/KernelStats.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace llmc::emit {

// Returns the number before `what` in `text`, or 0.
static unsigned numberBefore(StringRef text, StringRef what) {
  size_t at = text.find(what);
  if (at == StringRef::npos)
    return 0;
  StringRef head = text.take_front(at).rtrim();
  size_t digits = head.find_last_not_of("0123456789");
  unsigned value = 0;
  head.drop_front(digits == StringRef::npos ? 0 : digits + 1).getAsInteger(10, value);
  return value;
}

// Parses a log that holds for each kernel, each line after "ptxas info    : " or "info    : ":
//   Compiling entry function 'NAME' for 'sm_90'
//   Function properties for NAME
//     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   Used 32 registers, used 1 barriers, 128 bytes smem
bool readAssemblerLog(StringRef log, CudaKernelStats &figures) {
  std::string begin = "Compiling entry function '" + figures.entry + "'";
  size_t at = log.find(begin);
  if (at == StringRef::npos)
    return false;
  StringRef part = log.drop_front(at + begin.size());
  part = part.take_front(part.find("Compiling entry function '"));
  size_t used = part.find("Used ");
  if (used == StringRef::npos)
    return false;
  StringRef line = part.drop_front(used).split('\n').first;
  figures.registers = numberBefore(line, " registers");
  figures.shared = numberBefore(line, " bytes smem");
  figures.stack = numberBefore(part, " bytes stack frame");
  figures.spillStores = numberBefore(part, " bytes spill stores");
  figures.spillLoads = numberBefore(part, " bytes spill loads");
  return figures.registers > 0;
}

// Returns the bytes that "ld.global.nc.v4.b32" moves: the product of its vector and its type.
static unsigned accessBytes(StringRef instruction) {
  unsigned lanes = 1, bits = 0;
  for (StringRef part : split(instruction, '.')) {
    unsigned value = 0;
    if (part.size() > 1 && !part.drop_front().getAsInteger(10, value)) {
      if (part[0] == 'v')
        lanes = value;
      else if (StringRef("bufs").contains(part[0]))
        bits = value;
    }
  }
  return lanes * bits / 8;
}

void readAccesses(StringRef ptx, CudaKernelStats &figures) {
  // The body goes from ".entry NAME(" to the closing brace, which is on a line of its own.
  size_t at = ptx.find(".entry " + figures.entry + "(");
  if (at == StringRef::npos)
    return;
  StringRef body = ptx.drop_front(at);
  body = body.take_front(body.find("\n}"));
  for (StringRef line : split(body, '\n')) {
    line = line.trim();
    if (line.starts_with("@")) // guarded by a predicate
      line = line.split(' ').second.ltrim();
    StringRef instruction = line.take_while([](char c) { return !isSpace(c); });
    bool load = instruction.starts_with("ld.global"), store = instruction.starts_with("st.global");
    if (load || store)
      ++(load ? figures.loads : figures.stores)[accessBytes(instruction)];
  }
}

} // namespace llmc::emit

#include "lib/planfile/Payload.h"

#include "lib/support/Hash.h"
#include "lib/support/OutputFile.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

using namespace llmc;
using namespace llmc::planfile;
using support::error;

namespace {

constexpr std::string_view kMagic = "LLMCPAY2";

struct Trailer {
  uint64_t begin, runtimeHash, directory, directorySize, directoryHash, trailerHash;
  char magic[8];
};
static_assert(sizeof(Trailer) == 56);
constexpr size_t kHashedTrailerBytes = offsetof(Trailer, trailerHash);

// Returns the size of the ELF file at the start of `file`, which is where the linker stopped
// writing; 0 if there is none.
size_t elfSize(std::string_view file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof header)
    return 0;
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return 0;
  size_t end = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  if (header.e_shoff > file.size() || end > file.size())
    return 0;
  // Handles stripped files, which may end with a section instead of the section headers.
  for (unsigned i = 0; i < header.e_shnum && header.e_shentsize == sizeof(Elf64_Shdr); ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, file.data() + header.e_shoff + i * sizeof section, sizeof section);
    size_t last = section.sh_offset + section.sh_size;
    if (section.sh_type != SHT_NOBITS && last <= file.size() && last >= section.sh_offset)
      end = std::max(end, last);
  }
  return end;
}

std::string_view view(const support::MappedFile &file) {
  return {reinterpret_cast<const char *>(file.bytes().data()), file.size()};
}

template <class T>
void append(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof value);
}

// Takes a T from the front of `bytes`; false if there are too few.
template <class T>
bool take(std::string_view &bytes, T &value) {
  if (bytes.size() < sizeof value)
    return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

} // namespace

support::Status planfile::writePayload(const std::string &runtimeExe,
                                       std::span<const Section> sections,
                                       const std::string &outPath) {
  support::Result<support::MappedFile> runtime = support::MappedFile::open(runtimeExe);
  if (!runtime)
    return runtime.takeError();
  size_t begin = elfSize(view(*runtime));
  if (begin == 0)
    return error("'", runtimeExe, "' is not an executable");
  support::Result<support::OutputFile> out = support::OutputFile::create(outPath, true);
  if (!out)
    return out.takeError();
  if (support::Status s = out->write(view(*runtime).substr(0, begin)); !s)
    return s;

  std::string directory;
  append(directory, static_cast<uint32_t>(sections.size()));
  uint64_t at = begin;
  for (const Section &section : sections) {
    append(directory, static_cast<uint32_t>(section.name.size()));
    directory += section.name;
    append(directory, at);
    append(directory, static_cast<uint64_t>(section.bytes.size()));
    append(directory, support::hash64(section.bytes));
    at += section.bytes.size();
    if (support::Status s = out->write(section.bytes); !s)
      return s;
  }
  Trailer trailer{begin, support::hash64(view(*runtime).substr(0, begin)), at, directory.size(),
                  support::hash64(directory), 0, {}};
  trailer.trailerHash = support::hash64(&trailer, kHashedTrailerBytes);
  std::memcpy(trailer.magic, kMagic.data(), kMagic.size());
  if (support::Status s = out->write(directory); !s)
    return s;
  if (support::Status s = out->write(&trailer, sizeof trailer); !s)
    return s;
  return out->commit();
}

support::Result<Payload> Payload::open(const std::string &path) {
  support::Result<support::MappedFile> file = support::MappedFile::open(path);
  if (!file)
    return file.takeError();
  Payload payload(std::move(*file));
  if (support::Status s = payload.readDirectory(); !s)
    return s.takeError();
  return payload;
}

support::Status Payload::readDirectory() {
  std::string_view file = view(file_);
  size_t begin = elfSize(file);
  if (begin == 0)
    return error("'", file_.path(), "' is not a program made by llmc");
  if (begin == file.size())
    return error("'", file_.path(), "' carries no program: it is the bare runtime of llmc; ",
                 "make a program with 'llmc compile MODEL -o OUT'");
  auto damaged = [&](std::string_view what) {
    return error("'", file_.path(), "' is damaged: ", what, "; compile it again");
  };
  if (file.size() - begin < sizeof(Trailer))
    return damaged("the trailer of the payload is cut off");
  Trailer trailer;
  std::memcpy(&trailer, file.data() + file.size() - sizeof trailer, sizeof trailer);
  if (std::string_view(trailer.magic, 8) != kMagic)
    return damaged("the trailer of the payload is not at the end of the file");
  if (trailer.trailerHash != support::hash64(&trailer, kHashedTrailerBytes))
    return damaged("the checksum of the trailer does not match");
  size_t end = file.size() - sizeof trailer;
  if (trailer.begin != begin || trailer.directory < begin || trailer.directory > end ||
      trailer.directorySize != end - trailer.directory)
    return damaged("the payload does not follow the runtime");
  // Compares the runtime's own code too, for the file itself is what runs.
  if (support::hash64(file.substr(0, begin)) != trailer.runtimeHash)
    return damaged("the checksum of its own code does not match");
  std::string_view directory = file.substr(trailer.directory, trailer.directorySize);
  if (support::hash64(directory) != trailer.directoryHash)
    return damaged("the checksum of the directory does not match");

  uint32_t count = 0;
  if (!take(directory, count))
    return damaged("the directory is cut off");
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t length = 0;
    uint64_t offset = 0, size = 0, hash = 0;
    if (!take(directory, length) || directory.size() < length)
      return damaged("the directory is cut off");
    std::string name(directory.substr(0, length));
    directory.remove_prefix(length);
    if (!take(directory, offset) || !take(directory, size) || !take(directory, hash))
      return damaged("the directory is cut off");
    if (offset < begin || offset > trailer.directory || size > trailer.directory - offset)
      return damaged("section '" + name + "' lies outside of the payload");
    std::string_view bytes = file.substr(offset, size);
    if (support::hash64(bytes) != hash)
      return damaged("the checksum of section '" + name + "' does not match");
    sections_.push_back({std::move(name), bytes});
  }
  return support::ok();
}

bool Payload::has(std::string_view name) const {
  return std::any_of(sections_.begin(), sections_.end(),
                     [&](const Section &section) { return section.name == name; });
}

support::Result<std::string_view> Payload::section(std::string_view name) const {
  for (const Section &section : sections_)
    if (section.name == name)
      return section.bytes;
  return error("'", file_.path(), "' has no section '", name, "'");
}

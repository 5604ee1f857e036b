// Reads and writes what `llmc compile` appends to the prebuilt runtime: named sections of
// bytes, each with a checksum, then a directory and a trailer of 56 bytes. Tests:
// test/runtime/FilesTest.cpp. Layout (little endian):
//
//   runtime executable
//   section bytes ...
//   directory: u32 count, then for each section u32 length of the name, name,
//              u64 offset in the file, u64 size, u64 XXH3-64
//   trailer:   u64 offset of the first section, u64 XXH3-64 of the runtime,
//              u64 offset of the directory, u64 size of the directory,
//              u64 XXH3-64 of the directory, u64 XXH3-64 of the 40 bytes before,
//              char[8] magic
#ifndef LLMC_LIB_PLANFILE_PAYLOAD_H
#define LLMC_LIB_PLANFILE_PAYLOAD_H

#include "lib/support/Error.h"
#include "lib/support/File.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::planfile {

// Lists the sections of an executable made by `llmc compile`.
inline constexpr std::string_view kPlanSection = "plan";       // see Program.h
// Begins the names of the kernel sections, an ELF shared object for each kind of processor:
// "kernels-avx2", ...
inline constexpr std::string_view kKernelsPrefix = "kernels-";
inline constexpr std::string_view kKernelsSection = "kernels-avx2"; // in every program

// Represents a named section; `bytes` is a view that the struct does not own.
struct Section {
  std::string name;
  std::string_view bytes;
};

// Writes `outPath`: a copy of `runtimeExe` (without the payload that it may already carry)
// followed by `sections`. The file is executable and appears under its name only when it is
// complete. An error if `runtimeExe` is no ELF file, or reading or writing fails.
support::Status writePayload(const std::string &runtimeExe,
                             std::span<const Section> sections,
                             const std::string &outPath);

// Represents the payload of an executable. Every checksum was verified by open().
class Payload {
public:
  static support::Result<Payload> open(const std::string &path);

  // Returns the bytes of a section, valid as long as this object; an error if there is no such
  // section.
  support::Result<std::string_view> section(std::string_view name) const;

  // Returns all sections, in the order of the file.
  std::span<const Section> sections() const { return sections_; }

  bool has(std::string_view name) const;

  // Returns the size of the whole file in bytes.
  size_t fileSize() const { return file_.size(); }

private:
  explicit Payload(support::MappedFile file) : file_(std::move(file)) {}
  support::Status readDirectory();

  support::MappedFile file_;
  std::vector<Section> sections_;
};

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_PAYLOAD_H

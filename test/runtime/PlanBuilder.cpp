#include "PlanBuilder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace llmc;

test::TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "llmc-XXXXXX").string();
  path = ::mkdtemp(pattern.data());
}

test::TemporaryFolder::~TemporaryFolder() {
  std::error_code code;
  std::filesystem::remove_all(path, code);
}

void test::writeBytes(const std::string &path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void test::writeNpy(const std::string &path, const std::vector<int64_t> &shape,
                    const std::vector<int64_t> &values) {
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (";
  for (int64_t dim : shape)
    header += std::to_string(dim) + ",";
  header += "), }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 10, ' ');
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() % 256);
  bytes += static_cast<char>(header.size() / 256);
  bytes += header;
  bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * 8);
  writeBytes(path, bytes);
}

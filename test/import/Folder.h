// Writes and reads the files of a test.
#ifndef LLMC_TEST_IMPORT_FOLDER_H
#define LLMC_TEST_IMPORT_FOLDER_H

#include "Check.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace llmc::test {

inline std::string readAll(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Owns a temporary folder, which is removed with the object.
class Folder {
public:
  Folder() {
    static int made = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("llmc-import-" + std::to_string(::getpid()) + "-" + std::to_string(made++));
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  Folder(const Folder &) = delete;

  std::string operator/(const std::string &name) const { return (path_ / name).string(); }
  // Writes a file, with the folders on its path, and returns that path.
  std::string write(const std::string &name, const std::string &bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return *this / name;
  }
  void link(const std::string &name, const std::string &target) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::filesystem::create_symlink(target, path_ / name);
  }

private:
  std::filesystem::path path_;
};

} // namespace llmc::test

#endif // LLMC_TEST_IMPORT_FOLDER_H

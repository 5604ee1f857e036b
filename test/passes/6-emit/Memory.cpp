#include "Memory.h"

#include "lib/support/ElementType.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace llmc::test {

bool isNarrow(const std::string &element) { return element == "bf16" || element == "f16"; }

double roundedTo(const std::string &element, double value) {
  auto single = static_cast<float>(value);
  return element == "bf16"  ? support::bfloatToFloat(support::floatToBfloat(single))
         : element == "f16" ? support::halfToFloat(support::floatToHalf(single))
                            : single;
}

static size_t bytesOf(const std::string &element) {
  return element == "i1" ? 1 : element == "i64" ? 8 : isNarrow(element) ? 2 : 4;
}

Buffer::Buffer(std::string type, size_t count, size_t alignment)
    : element(std::move(type)), count(count) {
  size = count * bytesOf(element);
  padding = (size + alignment - 1) / alignment * alignment - size;
  size_t page = sysconf(_SC_PAGESIZE), whole = (size + padding + page - 1) / page * page;
  mappedSize = whole + page;
  mapped = static_cast<char *>(
      mmap(nullptr, mappedSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(mapped + whole, page, PROT_NONE);
  start = mapped + whole - padding - size;
}

Buffer::~Buffer() {
  if (mapped)
    munmap(mapped, mappedSize);
}

Buffer::Buffer(Buffer &&other) noexcept
    : element(other.element), count(other.count), size(other.size), padding(other.padding), mappedSize(other.mappedSize),
      mapped(other.mapped), start(other.start) {
  other.mapped = nullptr;
}

bool Buffer::isPaddingClean() const {
  for (size_t i = 0; i < padding; ++i)
    if (start[size + i])
      return false;
  return true;
}

template <typename T> static void put(char *to, const std::vector<double> &values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value = static_cast<T>(values[i]);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}
template <typename T> static std::vector<double> get(const char *from, size_t count) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

static std::vector<double> bitsOf(const std::string &element, const std::vector<double> &values) {
  std::vector<double> bits;
  for (double value : values)
    bits.push_back(element == "bf16" ? support::floatToBfloat(static_cast<float>(value))
                                     : support::floatToHalf(static_cast<float>(value)));
  return bits;
}

void Buffer::write(const std::vector<double> &values) {
  if (isNarrow(element))
    put<uint16_t>(start, bitsOf(element, values));
  else if (element == "f32")
    put<float>(start, values);
  else if (element == "i64")
    put<int64_t>(start, values);
  else if (element == "i32")
    put<int32_t>(start, values);
  else
    put<uint8_t>(start, values);
}

std::vector<double> Buffer::read() const {
  if (isNarrow(element)) {
    std::vector<double> values = get<uint16_t>(start, count);
    for (double &value : values) {
      auto bits = static_cast<uint16_t>(value);
      value = element == "bf16" ? support::bfloatToFloat(bits) : support::halfToFloat(bits);
    }
    return values;
  }
  if (element == "f32")
    return get<float>(start, count);
  if (element == "i64")
    return get<int64_t>(start, count);
  if (element == "i32")
    return get<int32_t>(start, count);
  return get<uint8_t>(start, count);
}

Library::Library(const std::string &bytes) {
  int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0 || write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    problem = "cannot write the shared object";
    return;
  }
  handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    problem = dlerror();
  close(file);
}

Library::~Library() {
  if (handle)
    dlclose(handle);
}

void *Library::symbol(const std::string &name) const { return dlsym(handle, name.c_str()); }

} // namespace llmc::test

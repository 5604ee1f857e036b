// Provides the minimum of a plain test program: named cases, and checks that continue after a
// failure.
#ifndef LLMC_TEST_PLANFILE_HARNESS_H
#define LLMC_TEST_PLANFILE_HARNESS_H

#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace llmc::test {

struct Case {
  std::string name;
  std::function<void()> run;
};

inline std::vector<Case> &cases() {
  static std::vector<Case> list;
  return list;
}

inline int &failures() {
  static int count = 0;
  return count;
}

struct Register {
  Register(std::string name, std::function<void()> run) {
    cases().push_back({std::move(name), std::move(run)});
  }
};

template <class A, class B>
void expectEqual(const A &got, const B &expected, const char *text, const char *file, int line) {
  if (got == expected)
    return;
  ++failures();
  std::cerr << file << ":" << line << ": " << text << "\n  got      " << got << "\n  expected "
            << expected << "\n";
}

inline void expectTrue(bool holds, const std::string &text, const char *file, int line) {
  if (holds)
    return;
  ++failures();
  std::cerr << file << ":" << line << ": " << text << "\n";
}

} // namespace llmc::test

#define LLMC_TEST(name)                                                                           \
  static void name();                                                                             \
  static const llmc::test::Register register_##name(#name, name);                                 \
  static void name()
#define EXPECT(condition) llmc::test::expectTrue((condition), #condition, __FILE__, __LINE__)
#define EXPECT_MSG(condition, text) llmc::test::expectTrue((condition), (text), __FILE__, __LINE__)
#define EXPECT_EQ(got, expected)                                                                  \
  llmc::test::expectEqual((got), (expected), #got, __FILE__, __LINE__)

#endif // LLMC_TEST_PLANFILE_HARNESS_H

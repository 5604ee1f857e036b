// GoogleTest's runs end in the line that the test runner adds up.
#include <gtest/gtest.h>
#include <iostream>

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  int code = RUN_ALL_TESTS();
  const testing::UnitTest &all = *testing::UnitTest::GetInstance();
  std::cout << all.successful_test_count() << " passed, " << all.failed_test_count() << " failed, "
            << all.skipped_test_count() << " skipped\n";
  return code || !all.test_to_run_count() ? 1 : 0;
}

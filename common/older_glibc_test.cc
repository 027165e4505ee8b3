// The program of this test is linked as ddprun is: what it throws and draws goes through these
// functions.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <stdexcept>

namespace {

// Where the frames of an object's code are described, as the unwinder asks.
const void* FramesOf(void* address) {
  dl_find_object found = {};
  if (_dl_find_object(address, &found) != 0) return nullptr;
  EXPECT_LE(found.dlfo_map_start, address);
  EXPECT_GT(found.dlfo_map_end, address);
  return found.dlfo_eh_frame;
}

int Throws(const void* /*left*/, const void* /*right*/) {
  throw std::runtime_error("from below libc");
}

TEST(OlderGlibc, FindsTheProgramAndItsLibraries) {
  const void* const own = FramesOf(reinterpret_cast<void*>(&Throws));
  const void* const libc = FramesOf(dlsym(RTLD_DEFAULT, "qsort"));
  EXPECT_NE(own, nullptr);
  EXPECT_NE(libc, nullptr);
  EXPECT_NE(own, libc);
  EXPECT_EQ(FramesOf(nullptr), nullptr);
  int variable = 0;
  EXPECT_EQ(FramesOf(&variable), nullptr) << "the stack is no object's";
}

// An exception passes frames of the program, of libc, and of the program again.
TEST(OlderGlibc, ExceptionsPassLibc) {
  int numbers[] = {2, 1};
  EXPECT_THROW(std::qsort(numbers, 2, sizeof(int), Throws), std::runtime_error);
}

TEST(OlderGlibc, RandomDeviceIsRandom) {
  std::random_device device;
  std::set<unsigned> drawn;
  for (int i = 0; i < 64; ++i) drawn.insert(device());
  EXPECT_GE(drawn.size(), 63U);
}

}  // namespace

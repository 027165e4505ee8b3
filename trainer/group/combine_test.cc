#include "trainer/group/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr Element kElements[] = {Element::kF64, Element::kF32, Element::kF16, Element::kBF16};

// Any bits: large and tiny numbers, infinities; of halves every one there is.
std::vector<std::uint8_t> AnyBits(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bits(bytes);
  for (std::uint8_t& byte : bits) {
    byte = static_cast<std::uint8_t>(random());
  }
  return bits;
}

std::vector<std::uint8_t> AllHalves() {
  std::vector<std::uint8_t> bits;
  for (unsigned half = 0; half < 0x10000; ++half) {
    bits.push_back(static_cast<std::uint8_t>(half & 0xff));
    bits.push_back(static_cast<std::uint8_t>(half >> 8));
  }
  return bits;
}

bool IsNan(Element element, const std::uint8_t* at) {
  if (element == Element::kF64) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return std::isnan(value);
  }
  if (element == Element::kF32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return std::isnan(value);
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  const unsigned infinity = element == Element::kF16 ? 0x7c00u : 0x7f80u;
  return (bits & 0x7fffu) > infinity;
}

// Equal but for a NaN's payload, on which no caller counts.
void ExpectSame(Element element, const std::vector<std::uint8_t>& plain,
                const std::vector<std::uint8_t>& wide, const std::string& what) {
  const std::size_t size = SizeOf(element);
  ASSERT_EQ(plain.size(), wide.size());
  for (std::size_t at = 0; at < plain.size(); at += size) {
    const bool same = std::memcmp(&plain[at], &wide[at], size) == 0;
    const bool nans = IsNan(element, &plain[at]) && IsNan(element, &wide[at]);
    ASSERT_TRUE(same || nans) << what << ", number " << at / size;
  }
}

TEST(Combine, IsTheSameBitsWithEveryInstructionSet) {
  if (BestInstructions() != Instructions::kWide) {
    GTEST_SKIP() << "this processor has one only";
  }
  for (const Element element : kElements) {
    for (const std::size_t count : {0, 1, 7, 8, 9, 65536}) {
      const std::string what =
          std::to_string(count) + " elements of kind " + std::to_string(static_cast<int>(element));
      const std::size_t bytes = count * SizeOf(element);
      std::vector<std::uint8_t> plain =
          element == Element::kF16 && count == 65536 ? AllHalves() : AnyBits(bytes, 1);
      std::vector<std::uint8_t> wide = plain;
      const std::vector<std::uint8_t> other = AnyBits(bytes, 2);
      Add(element, plain.data(), other.data(), count, Instructions::kPlain);
      Add(element, wide.data(), other.data(), count, Instructions::kWide);
      ExpectSame(element, plain, wide, what);
    }
  }
}

TEST(Combine, HalfPrecisionRoundsToNearestEven) {
  std::uint16_t into = 0x3f80;         // 1 as bfloat16
  const std::uint16_t other = 0x3b80;  // 2^-8: half of the last place; the even neighbour is 1.
  Add(Element::kBF16, &into, &other, 1);
  EXPECT_EQ(into, 0x3f80);
  const std::uint16_t more = 0x3bc0;  // 1.5 times that
  Add(Element::kBF16, &into, &more, 1);
  EXPECT_EQ(into, 0x3f81);
  std::uint16_t half = 0x3c00;  // 1 as half
  Add(Element::kF16, &half, &half, 1);
  EXPECT_EQ(half, 0x4000);
  std::uint16_t nan = 0x7fc0;
  Add(Element::kBF16, &into, &nan, 1);
  EXPECT_EQ(into, 0x7fc0);
}

TEST(Combine, RoundsHalvesToTheNearestEven) {
  const std::vector<_Float16> mine = {2048, 2048, 60000, 1, -1};
  const std::vector<_Float16> other = {1, 3, 60000, 2, 1};
  for (const Instructions with : {Instructions::kPlain, BestInstructions()}) {
    // Eight and more, so that both loops see them.
    std::vector<_Float16> sums;
    std::vector<_Float16> added;
    for (int again = 0; again < 2; ++again) {
      sums.insert(sums.end(), mine.begin(), mine.end());
      added.insert(added.end(), other.begin(), other.end());
    }
    Add(Element::kF16, sums.data(), added.data(), sums.size(), with);
    for (std::size_t i = 0; i < sums.size(); i += mine.size()) {
      EXPECT_EQ(static_cast<float>(sums[i]), 2048);
      EXPECT_EQ(static_cast<float>(sums[i + 1]), 2052);
      EXPECT_TRUE(std::isinf(static_cast<float>(sums[i + 2])));
      EXPECT_EQ(static_cast<float>(sums[i + 3]), 3);
      EXPECT_EQ(static_cast<float>(sums[i + 4]), 0);
    }
  }
}

}  // namespace
}  // namespace ddprun

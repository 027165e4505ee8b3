#include "trainer/tensorboard/curve_records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace ddprun {
namespace {

using std::string_literals::operator""s;

// The records of torch.utils.tensorboard.SummaryWriter of torch 2.15, but for the times of the last
// two.
TEST(CurveRecords, AreTheBytesOfSummaryWriter) {
  const std::vector<Scalar> scalars = {{"train/loss", 0.5}};
  EXPECT_EQ(
      TfRecord(ScalarsEvent(1000.5, 12, scalars)),
      " \0\0\0\0\0\0\0)\xed\xa9P\t\0\0\0\0\0D\x8f@\x10\x0c*\x13\n\x11\n\ntrain/loss\x15\0\0\0?"
      "\xe2\xfb!\xbc"s);
  double time = 0;
  std::memcpy(&time,
              "\xf7M\"\x12\xa4\xc1\xda"
              "A",
              sizeof time);
  EXPECT_EQ(TfRecord(SessionStartEvent(time, 11)),
            "\x0f\0\0\0\0\0\0\0mS+\t\t\xf7M\"\x12\xa4\xc1\xda"
            "A\x10\x0b:\x02\x08\x01s\xb0}B"s);
  EXPECT_EQ(FileVersionEvent(time),
            "\t\xf7M\"\x12\xa4\xc1\xda"
            "A\x1a\rbrain.Event:2"s);
}

TEST(CurveRecords, TakeStepsAndNamesOfAnySize) {
  const std::vector<Scalar> scalars = {{std::string(200, 'x'), 1}, {"y", 2}};
  const std::string event = ScalarsEvent(0, std::uint64_t{1} << 40, scalars);
  // Time, then the step's key and a varint of 41 bits.
  EXPECT_EQ(event.substr(9, 7), "\x10\x80\x80\x80\x80\x80\x20"s);
  // The summary's length, and its first value's: 1 + 2 + 200 for the tag, 5 for the number.
  EXPECT_EQ(event.substr(16, 6), "*\xdd\x01\n\xd0\x01"s);
  EXPECT_EQ(event.size(), 16u + 3 + 0xdd);
}

TEST(CurveRecords, ShowWhatIsNoNumberAsSuch) {
  const auto written = [](double value) {
    const std::vector<Scalar> scalars = {{"x", value}};
    const std::string event = ScalarsEvent(0, 1, scalars);
    std::uint32_t bits = 0;
    std::memcpy(&bits, event.data() + event.size() - sizeof bits, sizeof bits);
    return bits;
  };
  EXPECT_EQ(written(std::numeric_limits<double>::infinity()), 0x7F800000u);
  EXPECT_EQ(written(1e300), 0x7F800000u);
  EXPECT_EQ(written(std::nan("")) & 0x7FC00000u, 0x7FC00000u);
}

}  // namespace
}  // namespace ddprun

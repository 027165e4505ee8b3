#include "trainer/tensorboard/curve_records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace ddprun {
namespace {

using std::string_literals::operator""s;

template <class Unsigned>
Unsigned TakeNumber(std::string_view bytes) {
  Unsigned value = 0;
  for (std::size_t i = sizeof value; i-- > 0;) {
    value = static_cast<Unsigned>(value << 8 | static_cast<unsigned char>(bytes[i]));
  }
  return value;
}

// The payloads of the whole and sound records at the beginning, as TensorFlow's record_reader.h
// takes them: it ends at the first that is neither.
std::vector<std::string> SoundRecords(std::string_view file) {
  std::vector<std::string> payloads;
  while (file.size() >= 12) {
    const auto length = TakeNumber<std::uint64_t>(file);
    if (TakeNumber<std::uint32_t>(file.substr(8)) != MaskedCrc32c(file.substr(0, 8)) ||
        file.size() < 16 || length > file.size() - 16) {
      break;
    }
    const std::string_view payload = file.substr(12, length);
    if (TakeNumber<std::uint32_t>(file.substr(12 + length)) != MaskedCrc32c(payload)) {
      break;
    }
    payloads.emplace_back(payload);
    file.remove_prefix(16 + length);
  }
  return payloads;
}

// RFC 3720, B.4.
TEST(Crc32c, GivesTheKnownValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) {
    rising.push_back(static_cast<char>(i));
  }
  EXPECT_EQ(Crc32c(rising), 0x46DD794Eu);
}

// rotr(0xE3069283, 15) = 0x2507C60D, plus 0xA282EAD8; the sum of nothing is the constant.
TEST(Crc32c, IsMaskedByARotationAndASum) {
  EXPECT_EQ(MaskedCrc32c("123456789"), 0xC78AB0E5u);
  EXPECT_EQ(MaskedCrc32c(""), 0xA282EAD8u);
}

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
    return TakeNumber<std::uint32_t>(std::string_view(event).substr(event.size() - 4));
  };
  EXPECT_EQ(written(std::numeric_limits<double>::infinity()), 0x7F800000u);
  EXPECT_EQ(written(1e300), 0x7F800000u);
  EXPECT_EQ(written(std::nan("")) & 0x7FC00000u, 0x7FC00000u);
}

// A kill or a full disk cuts a file anywhere, a bad disk turns any bit: all whole records before
// that are read, and nothing else.
TEST(CurveRecords, ShowADamagedTail) {
  const std::vector<Scalar> scalars = {{"train/loss", 0.25}};
  const std::vector<std::string> payloads = {FileVersionEvent(1), SessionStartEvent(2, 1),
                                             ScalarsEvent(3, 10, scalars)};
  std::string file;
  std::vector<std::size_t> ends;
  for (const std::string& payload : payloads) {
    file += TfRecord(payload);
    ends.push_back(file.size());
  }
  ASSERT_EQ(SoundRecords(file), payloads);
  const auto whole_before = [&](std::size_t at) {
    std::vector<std::string> whole;
    for (std::size_t i = 0; i < ends.size() && ends[i] <= at; ++i) {
      whole.push_back(payloads[i]);
    }
    return whole;
  };
  for (std::size_t at = 0; at < file.size(); ++at) {
    EXPECT_EQ(SoundRecords(file.substr(0, at)), whole_before(at)) << "cut at " << at;
    for (int bit = 0; bit < 8; ++bit) {
      std::string turned = file;
      turned[at] = static_cast<char>(turned[at] ^ (1 << bit));
      EXPECT_EQ(SoundRecords(turned), whole_before(at)) << "bit " << bit << " at " << at;
    }
  }
}

}  // namespace
}  // namespace ddprun

#include "trainer/tensorboard/curve_records.h"

#include <bit>
#include <boost/crc.hpp>
#include <boost/endian/conversion.hpp>

namespace ddprun {
namespace {

// Protobuf's wire types.
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kFixed64 = 1;
constexpr std::uint32_t kBytes = 2;
constexpr std::uint32_t kFixed32 = 5;

constexpr std::uint32_t kWallTime = 1;
constexpr std::uint32_t kStep = 2;
constexpr std::uint32_t kFileVersion = 3;
constexpr std::uint32_t kSummary = 5;
constexpr std::uint32_t kSessionLog = 7;
constexpr std::uint32_t kSummaryValue = 1;
constexpr std::uint32_t kTag = 1;
constexpr std::uint32_t kSimpleValue = 2;
constexpr std::uint32_t kStatus = 1;
constexpr std::uint64_t kStatusStart = 1;

template <class Unsigned>
void PutFixed(std::string& out, Unsigned value) {
  boost::endian::native_to_little_inplace(value);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PutVarint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out.push_back(static_cast<char>(value | 0x80));
  }
  out.push_back(static_cast<char>(value));
}

void PutKey(std::string& out, std::uint32_t field, std::uint32_t wire_type) {
  PutVarint(out, field << 3 | wire_type);
}

void PutBytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  PutKey(out, field, kBytes);
  PutVarint(out, bytes.size());
  out += bytes;
}

std::string EventAt(double wall_time, std::uint64_t step) {
  std::string event;
  PutKey(event, kWallTime, kFixed64);
  PutFixed(event, std::bit_cast<std::uint64_t>(wall_time));
  if (step != 0) {  // Protobuf leaves out what is the default.
    PutKey(event, kStep, kVarint);
    PutVarint(event, step);
  }
  return event;
}

}  // namespace

std::uint32_t Crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, ~0u, ~0u, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xa282ead8u;
}

std::string TfRecord(std::string_view payload) {
  std::string record;
  PutFixed(record, static_cast<std::uint64_t>(payload.size()));
  PutFixed(record, MaskedCrc32c(record));
  record += payload;
  PutFixed(record, MaskedCrc32c(payload));
  return record;
}

std::string FileVersionEvent(double wall_time) {
  std::string event = EventAt(wall_time, 0);
  PutBytes(event, kFileVersion, "brain.Event:2");
  return event;
}

std::string SessionStartEvent(double wall_time, std::uint64_t first_step) {
  std::string status;
  PutKey(status, kStatus, kVarint);
  PutVarint(status, kStatusStart);
  std::string event = EventAt(wall_time, first_step);
  PutBytes(event, kSessionLog, status);
  return event;
}

std::string ScalarsEvent(double wall_time, std::uint64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    PutBytes(value, kTag, scalar.tag);
    PutKey(value, kSimpleValue, kFixed32);
    PutFixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    PutBytes(summary, kSummaryValue, value);
  }
  std::string event = EventAt(wall_time, step);
  PutBytes(event, kSummary, summary);
  return event;
}

}  // namespace ddprun

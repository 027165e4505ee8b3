// The bytes of TensorBoard's event files, as pure functions: no file, no clock.
//
// A file is a row of TFRecords, numbers little-endian:
//
//   uint64 length | uint32 masked CRC-32C of the length | payload | uint32 masked CRC-32C of the
//   payload
//
// (TensorFlow's lib/io/record_writer.h), each payload a protobuf message Event. Of event.proto and
// summary.proto only what scalars need is written, by hand, since libtorch carries a protobuf of
// its own beside which no second one may be linked:
//
//   Event       1 wall_time double | 2 step int64 | 3 file_version string | 5 summary | 7
//   session_log Summary     1 value, repeated: Value 1 tag string | 2 simple_value float SessionLog
//   1 status: START is 1
//
// Writing is never refused; a reader sees a damaged record by its checksums.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

// CRC-32C (Castagnoli), as RFC 3720 B.4 has it: "123456789" gives 0xE3069283.
std::uint32_t Crc32c(std::string_view bytes);
// Rotated right by 15 bits, plus 0xA282EAD8: so that bytes with a checksum among them have another
// one.
std::uint32_t MaskedCrc32c(std::string_view bytes);

// The payload with its length and both checksums.
std::string TfRecord(std::string_view payload);

struct Scalar {
  std::string tag;   // "train/loss"; those of one word before the slash stand together.
  double value = 0;  // Written as a float. NaN and infinities are shown as such.
};

// `wall_time`: seconds since 1970. All three are payloads; each file begins with the first.
std::string FileVersionEvent(double wall_time);
// A training begins after this: older files' values of `first_step` and later steps are void.
// TensorBoard takes the first of a directory for the training's beginning, where nothing is void
// yet.
std::string SessionStartEvent(double wall_time, std::uint64_t first_step);
std::string ScalarsEvent(double wall_time, std::uint64_t step, std::span<const Scalar> scalars);

}  // namespace ddprun

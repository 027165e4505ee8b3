// The parts that messages and claims share, and the reader that checks every field; for
// convert_*.cc and ended_run.cc only.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/term_bounds.h"
#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_enums.h"

namespace ddprun {

inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 366 * 10);
inline constexpr std::int64_t kMaxUnixMs =
    253'402'300'799'999;  // The last moment of the year 9999.

// For the one who asks, whose log shows it.
inline Error OtherProtocol(std::uint32_t said) {
  return {ErrorKind::kInvalid, "the server speaks protocol " + std::to_string(kProtocol) +
                                   ", this node " + std::to_string(said) +
                                   ": run the same ddprun on every node"};
}

inline bool IsPrintable(char c) {
  return c >= 0x20 && c < 0x7f;
}

// Reads fields and remembers the first that cannot be used; what it returns then is never seen.
class Reader {
 public:
  // `ahead`: of this clock, how far what is counted up may be.
  Reader(std::int64_t unix_ms, ddprun::Duration ahead)
      : unix_ms_(unix_ms), most_(TermBoundsAt(unix_ms, ahead)) {}
  explicit Reader(ddprun::Duration ahead) : Reader(LatestUnixMilliseconds(), ahead) {}

  bool ok() const { return !error_; }
  Error error() const { return *error_; }

  void Refuse(std::string_view field, std::string_view why) {
    if (!error_) {
      error_ = Error{ErrorKind::kInvalid, std::string(field) + " " + std::string(why)};
    }
  }

  template <class T>
  T Number(std::string_view field, T value, T least, T most) {
    if (value < least || value > most) {
      Refuse(field, "must be from " + std::to_string(least) + " to " + std::to_string(most) +
                        ", not " + std::to_string(value));
    }
    return value;
  }

  std::uint64_t Count(std::string_view field, std::uint64_t value) {
    return Number<std::uint64_t>(field, value, 0, kMaxCount);
  }

  ddprun::Term Term(std::string_view field, std::uint64_t value) {
    if (value > most_.term.value) {
      Refuse(field, "is " + std::to_string(value) + ", " + WhyNotYet({value}, unix_ms_));
    }
    return {value};
  }
  ddprun::Generation Generation(std::string_view field, std::uint64_t value) {
    if (value > most_.generation.value) {
      Refuse(field, "is " + std::to_string(value) + ", which cannot be yet: at most " +
                        std::to_string(most_.generation.value) + " is taken");
    }
    return {value};
  }

  ddprun::Duration Duration(std::string_view field, std::int64_t milliseconds) {
    return ddprun::Duration(Number<std::int64_t>(field, milliseconds, 0, kMaxDuration.count()));
  }

  template <class Value, class Wire, std::size_t kSize>
  Value Enum(std::string_view field, const Names<Value, Wire, kSize>& names, Wire wire) {
    const auto found = std::ranges::find(names, wire, &std::pair<Value, Wire>::second);
    if (found == names.end()) {
      Refuse(field, "has the unknown value " + std::to_string(static_cast<int>(wire)));
      return names.front().first;
    }
    return found->first;
  }

  // One that may be empty.
  std::string OptionalName(std::string_view field, const std::string& value) {
    if (value.size() > kMaxNameBytes) {
      Refuse(field, "has " + std::to_string(value.size()) + " bytes, at most " +
                        std::to_string(kMaxNameBytes) + " are taken");
    } else if (!std::ranges::all_of(value, IsPrintable)) {
      Refuse(field, "has characters that cannot be printed");
    }
    return value;
  }

  std::string Name(std::string_view field, const std::string& value) {
    if (value.empty()) {
      Refuse(field, "is empty");
    }
    return OptionalName(field, value);
  }

  // Numbers with commas; what they mean is looked at where they count.
  std::string Addresses(std::string_view field, const std::string& value, std::size_t most) {
    if (value.find_first_not_of("0123456789abcdefABCDEF:.,") != std::string::npos) {
      Refuse(field, "has something that is no address");
    }
    return Text(field, value, most);
  }

  std::string Text(std::string_view field, const std::string& value, std::size_t most) {
    if (value.size() > most) {
      Refuse(field, "has " + std::to_string(value.size()) + " bytes, at most " +
                        std::to_string(most) + " are taken");
    }
    return value;
  }

 private:
  const std::int64_t unix_ms_;
  const TermBounds most_;
  std::optional<Error> error_;
};

Endpoint Read(const v1::Endpoint& wire, Reader& in);
RunSpec Read(const v1::RunSpec& wire, Reader& in);
Finish Read(const v1::Finish& wire, Reader& in);
RunEvent Read(const v1::RunEvent& wire, Reader& in);
// Of a node with so many workers.
RankDetails Read(const v1::RankDetails& wire, std::uint32_t workers, Reader& in);
TrainingPoint Read(const v1::TrainingPoint& wire, Reader& in);
EventMark ReadMark(std::string_view field, const v1::EventMark& wire, Reader& in);
std::vector<RunEvent> ReadEvents(const google::protobuf::RepeatedPtrField<v1::RunEvent>& wire,
                                 std::size_t most, Reader& in);

void Write(const Endpoint& endpoint, v1::Endpoint* wire);
void Write(const RunSpec& spec, v1::RunSpec* wire);
void Write(const Finish& finish, v1::Finish* wire);
void Write(const RunEvent& event, v1::RunEvent* wire);
void Write(const RankDetails& details, v1::RankDetails* wire);
// Of a message that has them.
HostFacts ReadFacts(const google::protobuf::RepeatedPtrField<v1::HostFact>& wire, Reader& in);
void WriteFacts(const HostFacts& facts, google::protobuf::RepeatedPtrField<v1::HostFact>* wire);
void Write(const TrainingPoint& point, v1::TrainingPoint* wire);
void Write(const EventMark& mark, v1::EventMark* wire);

}  // namespace ddprun

// The check of every value that comes from a socket or a claim; for this folder only.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/result.h"
#include "common/time.h"
#include "rendezvous/messages/limits.h"
#include "rendezvous/term_bounds.h"

namespace ddprun {

inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 366 * 10);
inline constexpr std::int64_t kMaxUnixMs =
    253'402'300'799'999;  // The last moment of the year 9999.

inline bool IsPrintable(char c) {
  return c >= 0x20 && c < 0x7f;
}

// Reads fields and remembers the first that cannot be used; results after that are never used.
class Reader {
 public:
  // `ahead`: of this clock, how far what is counted up may be.
  Reader(std::int64_t unix_ms, ddprun::Duration ahead)
      : unix_ms_(unix_ms), most_(TermBoundsAt(unix_ms, ahead)) {}
  explicit Reader(ddprun::Duration ahead) : Reader(LatestUnixMilliseconds(), ahead) {}

  bool ok() const { return !error_; }
  Error error() const { return *error_; }
  template <class Value>
  Result<Value> Taken(Value value) const {
    return error_ ? Result<Value>(*error_) : Result<Value>(std::move(value));
  }

  // Errors name fields as parts of this one, until the next call. The part before.
  std::string_view Enter(std::string_view part) { return std::exchange(part_, part); }

  void Refuse(std::string_view field, std::string_view why) {
    if (!error_) {
      const char* const dot = part_.empty() || field.empty() ? "" : ".";
      error_ = Error{ErrorKind::kInvalid,
                     std::string(part_) + dot + std::string(field) + " " + std::string(why)};
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

  // ---- Texts, which come back as they are, without a copy ----
  // One that may be empty.
  const std::string& OptionalName(std::string_view field, const std::string& value) {
    if (value.size() > kMaxNameBytes) {
      Refuse(field, "has " + std::to_string(value.size()) + " bytes, at most " +
                        std::to_string(kMaxNameBytes) + " are taken");
    } else if (!std::ranges::all_of(value, IsPrintable)) {
      Refuse(field, "has characters that cannot be printed");
    }
    return value;
  }

  const std::string& Name(std::string_view field, const std::string& value) {
    if (value.empty()) {
      Refuse(field, "is empty");
    }
    return OptionalName(field, value);
  }

  // Numbers with commas; their users check what they mean.
  const std::string& Addresses(std::string_view field, const std::string& value, std::size_t most) {
    if (value.find_first_not_of("0123456789abcdefABCDEF:.,") != std::string::npos) {
      Refuse(field, "has something that is no address");
    }
    return Text(field, value, most);
  }

  const std::string& Text(std::string_view field, const std::string& value, std::size_t most) {
    if (value.size() > most) {
      Refuse(field, "has " + std::to_string(value.size()) + " bytes, at most " +
                        std::to_string(most) + " are taken");
    }
    return value;
  }

 private:
  const std::int64_t unix_ms_;
  const TermBounds most_;
  std::string_view part_;
  std::optional<Error> error_;
};

}  // namespace ddprun

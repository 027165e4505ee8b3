// The bytes of the store: requests out of a stream that may break anywhere, replies into one.
//
//   request   u8 op, then its fields; text is u64 length + bytes; integers are little endian
//   first     VALIDATE with the magic, once; anything else ends the connection
//
// Trusts no byte: every length is judged before anything is kept for it.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"
#include "rendezvous/store/store_messages.h"

namespace ddprun {

inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;

// The first three are torch's. A request beyond any of them closes its connection.
struct StoreLimits {
  // The bytes of one key: too few refuse keys that torch allows.
  std::size_t key_bytes = 8 << 10;
  // The bytes of one value: too few refuse values that torch allows.
  std::size_t value_bytes = 8 << 20;
  // The keys of one request: too few refuse a barrier of a large world.
  std::uint64_t keys = 128 << 10;
  // The bytes of one request: too many let one client fill the memory.
  std::size_t request_bytes = 256 << 20;
  // The bytes of all keys of one request: all are looked up in one iteration, so too many keep the
  // other clients waiting.
  std::size_t keys_bytes = 32 << 20;
};

class StoreParser {
 public:
  explicit StoreParser(const StoreLimits& limits) : limits_(limits) {}

  // Takes bytes off the front of `input` until one request is whole. Nullopt: `input` is used up
  // and more is needed. VALIDATE is dealt with here and never returned. After an error the
  // stream cannot be read any further.
  Result<std::optional<StoreRequest>> Parse(std::string_view& input);

  bool validated() const { return validated_; }

  // The bytes kept of the unfinished request.
  std::size_t held() const { return held_; }

 private:
  enum class Step { kOp, kCount, kLength, kText, kNumber, kDone };

  Result<void> Begin(std::uint8_t op);
  void Next();
  Result<void> BeginText(std::uint64_t length);
  void TakeText(std::string_view& input);
  std::optional<std::uint64_t> TakeNumber(std::string_view& input, std::size_t size);
  Result<void> TakeDone(std::optional<StoreRequest>& request);

  StoreLimits limits_;
  bool validated_ = false;
  Step step_ = Step::kOp;
  StoreRequest request_;
  std::string_view fields_;       // Of one item: k key, v value, 8 and 4 integers of that size.
  std::size_t field_ = 0;         // Index into fields_.
  std::uint64_t items_left_ = 0;  // Beside the current one.
  std::size_t text_left_ = 0;
  std::array<char, 8> number_{};
  std::size_t number_have_ = 0;
  std::size_t held_ = 0;
  std::size_t keys_held_ = 0;  // Of that, beside what a text takes itself.
};

// Replies on their way to one peer. Refers to their values and copies none before it is sent.
class StoreOutput {
 public:
  void Append(const StoreReply& reply);
  bool empty() const { return parts_.empty(); }

  // The bytes kept beside the values.
  std::size_t held() const { return parts_.size() * sizeof(Part); }

  // The next bytes to send, valid until the next Consume. A large value is sent from where it
  // lies; a smaller one is copied to `scratch`, as much as fits.
  std::string_view Next(std::span<char> scratch) const;
  void Consume(std::size_t sent);

 private:
  struct Part {          // One of the two, never empty.
    std::string number;  // Of 8 bytes at most, so that it takes no memory outside.
    StoreValue value;
    std::string_view View() const { return value != nullptr ? *value : std::string_view(number); }
  };

  void AppendValue(const StoreValue& value);

  std::deque<Part> parts_;
  std::size_t sent_ = 0;  // Of the first part.
};

}  // namespace ddprun

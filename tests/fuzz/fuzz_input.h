// The base of every fuzz target: the bytes of one input, taken apart front to back.
//
// A target is one function, LLVMFuzzerTestOneInput: libFuzzer calls it (scripts/fuzz.sh), or
// replay_main.cc with the inputs kept under corpus/. It aborts, by CHECK or by a sanitizer, on
// whatever must not be, and reads nothing but its input.
#pragma once

#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/result.h"

// Of the sanitizers, where they are linked.
extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();

namespace ddprun {

// The memory that the process has from its allocator now, regardless of which one that is.
inline std::size_t AllocatedBytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) {
    return __sanitizer_get_current_allocated_bytes();
  }
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  // 0 where nothing is left.
  std::uint8_t Byte() {
    if (rest_.empty()) {
      return 0;
    }
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  std::string_view Rest() const { return rest_; }
  std::string RestText() const { return std::string(rest_); }

  // The rest; but OPEN~MIDDLE~CLOSE is a text with OPEN before and CLOSE behind MIDDLE so many
  // times that together they are beyond any depth: no input of a few kB is by itself.
  std::string DeepText() const {
    const std::vector<std::string> parts = Pieces("~");
    if (parts.size() != 3) {
      return RestText();
    }
    std::string before, after;
    while (before.size() + after.size() < kDeepBytes) {
      before += parts[0] + " ";
      after += parts[2] + " ";
    }
    return before + parts[1] + after;
  }

  // The rest, cut at each `separator`.
  std::vector<std::string> Pieces(std::string_view separator) const {
    std::vector<std::string> pieces;
    std::string_view left = rest_;
    for (std::size_t at = left.find(separator); at != left.npos; at = left.find(separator)) {
      pieces.emplace_back(left.substr(0, at));
      left.remove_prefix(at + separator.size());
    }
    pieces.emplace_back(left);
    return pieces;
  }

 private:
  static constexpr std::size_t kDeepBytes = 600'000;

  std::string_view rest_;
};

// A reader takes its input, or says what is wrong with it.
template <class Value>
bool Taken(const Result<Value>& read) {
  CHECK(read || !read.error().message.empty());
  return read.has_value();
}

template <class Value, std::size_t kSize>
Value OneOf(FuzzInput& input, const std::array<Value, kSize>& values) {
  return values[input.Byte() % kSize];
}

inline std::string SomeText(FuzzInput& input) {
  const std::size_t size = OneOf<std::size_t>(input, std::array<std::size_t, 4>{0, 3, 255, 4'096});
  return std::string(size, 'x');
}

}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// A block of bytes, or a slice of one: a tensor's values on their way to and from a file.
//
// Copies and slices share the block, so that 100 MB change hands without being moved. The code that
// fills it does so before handing it on. A large block lies in huge pages where the system grants
// them: the first touch of 100 MB then costs 50 page faults instead of 25,000.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun {

class Bytes {
 public:
  Bytes() = default;
  Bytes(std::string text);  // So that small things read as text: not explicit.
  Bytes(const char* text) : Bytes(std::string(text)) {}

  // With undefined values; the block is the caller's alone.
  static Bytes Uninitialized(std::size_t size);
  // A file's pages, shared with other processes that have them. Empty where they cannot be mapped.
  static Bytes Shared(int file, std::size_t size);

  Bytes Slice(std::size_t begin, std::size_t size) const;

  const char* data() const { return data_; }
  char* mutable_data() { return data_; }  // All slices see it.
  std::size_t size() const { return size_; }
  operator std::string_view() const { return {data_, size_}; }
  bool operator==(const Bytes& other) const {
    return std::string_view(*this) == std::string_view(other);
  }

 private:
  std::shared_ptr<void> block_;
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddprun

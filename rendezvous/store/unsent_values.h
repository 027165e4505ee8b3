// The large values that replies on their way still need. Each is there once, however many wait for
// it, and counts once; decides nothing.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "rendezvous/store/store_messages.h"

namespace ddprun {

class UnsentValues {
 public:
  // Once for each reply that has the value, and each place that it has there.
  void Hold(const StoreValue& value);
  void LetGo(const StoreValue& value);

  std::size_t bytes() const { return bytes_; }
  // Of one that is held: what would fall to each holder.
  std::size_t ShareOf(const StoreValue& value) const;

 private:
  std::unordered_map<const std::string*, std::size_t> holders_;
  std::size_t bytes_ = 0;
};

}  // namespace ddprun

#include "rendezvous/store/unsent_values.h"

#include "common/check.h"

namespace ddprun {

void UnsentValues::Hold(const StoreValue& value) {
  if (++holders_[value.get()] == 1) {
    bytes_ += value->size();
  }
}

void UnsentValues::LetGo(const StoreValue& value) {
  const auto held = holders_.find(value.get());
  CHECK(held != holders_.end());
  if (--held->second == 0) {
    bytes_ -= value->size();
    holders_.erase(held);
  }
}

std::size_t UnsentValues::ShareOf(const StoreValue& value) const {
  return value->size() / holders_.at(value.get());
}

}  // namespace ddprun

#include "rendezvous/listener/unauthenticated.h"

namespace ddprun {

void UnauthenticatedConnections::Add(Number number, const std::string& address, Time now) {
  all_[number] = {address, now};
  Count(address, number, true);
}

bool UnauthenticatedConnections::Remove(Number number) {
  const auto found = all_.find(number);
  if (found == all_.end()) {
    return false;
  }
  Count(found->second.address, number, false);
  all_.erase(found);
  return true;
}

void UnauthenticatedConnections::Count(const std::string& address, Number number, bool here) {
  std::set<Number>& own = of_address_[address];
  crowds_.erase({own.size(), address});
  if (here) {
    own.insert(number);
  } else {
    own.erase(number);
  }
  if (own.empty()) {
    of_address_.erase(address);
  } else {
    crowds_.insert({own.size(), address});
  }
}

std::optional<UnauthenticatedConnections::Number> UnauthenticatedConnections::Since(
    Time then) const {
  const bool there = !all_.empty() && all_.begin()->second.since <= then;
  return there ? std::optional(all_.begin()->first) : std::nullopt;
}

UnauthenticatedConnections::Number UnauthenticatedConnections::After(Number number) const {
  const auto next = all_.upper_bound(number);
  return next == all_.end() ? all_.begin()->first : next->first;
}

std::optional<UnauthenticatedConnections::Number> UnauthenticatedConnections::ToEvict(
    const std::string& address, Time now) const {
  if (all_.empty()) {
    return std::nullopt;
  }
  const auto& [most, crowd] = *crowds_.rbegin();
  const auto own = of_address_.find(address);
  const std::size_t with_newcomer = 1 + (own == of_address_.end() ? 0 : own->second.size());
  if (most > with_newcomer) {
    return *of_address_.at(crowd).begin();
  }
  const auto& [oldest, connection] = *all_.begin();
  return now - connection.since >= kLeastAgeToEvict ? std::optional(oldest) : std::nullopt;
}

}  // namespace ddprun

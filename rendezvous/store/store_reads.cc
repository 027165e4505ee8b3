// The table's questions, which change nothing.
#include <algorithm>

#include "rendezvous/store/store_table.h"

namespace ddprun {
namespace {

constexpr std::uint8_t kReady = 0;
constexpr std::uint8_t kNotReady = 1;

}  // namespace

StoreReply StoreTable::Read(const StoreRequest& request) const {
  switch (request.op) {
    case StoreOp::kGet:
    case StoreOp::kMultiGet: {
      ValuesReply reply;
      for (const std::string& key : request.keys) {
        reply.values.push_back(Find(key));
      }
      return reply;
    }
    case StoreOp::kCheck:
      return ByteReply{std::all_of(request.keys.begin(), request.keys.end(),
                                   [&](const std::string& key) { return Has(key); })
                           ? kReady
                           : kNotReady};
    case StoreOp::kGetNumKeys:
      return NumberReply{static_cast<std::int64_t>(values_.size())};
    case StoreOp::kPing:
      return NonceReply{static_cast<std::uint32_t>(request.number)};
    case StoreOp::kQueueLen: {
      const auto queue = queues_.find(request.keys[0]);
      const std::size_t length = queue == queues_.end() ? 0 : queue->second.size();
      return NumberReply{static_cast<std::int64_t>(length)};
    }
    default:
      CHECK(false);  // Apply sends only these here.
  }
}

std::set<std::string> StoreTable::Missing(std::vector<std::string> keys) const {
  std::set<std::string> missing;
  for (std::string& key : keys) {
    if (!Has(key)) {
      missing.insert(std::move(key));
    }
  }
  return missing;
}

bool StoreTable::Has(const std::string& key) const {
  return values_.contains(key) || queues_.contains(key);
}

StoreValue StoreTable::Find(const std::string& key) const {
  const auto entry = values_.find(key);
  return entry == values_.end() ? nullptr : entry->second;
}

}  // namespace ddprun

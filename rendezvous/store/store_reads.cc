// The table's questions: what changes nothing, and how long an answer would be.
#include <algorithm>

#include "rendezvous/store/store_table.h"

namespace ddprun {
namespace {

constexpr std::uint8_t kReady = 0;
constexpr std::uint8_t kNotReady = 1;
constexpr std::size_t kNumberBytes = 8;  // Of a count, a length or an integer.

StoreReplySize SizeOf(const StoreValue& value) {
  const std::size_t size = value == nullptr ? 0 : value->size();
  return {kNumberBytes + size, kNumberBytes + (size > kCopiedValue ? 0 : size)};
}

}  // namespace

StoreReplySize StoreTable::ReplySize(const StoreRequest& request) const {
  const auto text = [](std::size_t bytes) { return StoreReplySize{bytes, bytes}; };
  switch (request.op) {
    case StoreOp::kGet:
    case StoreOp::kMultiGet: {
      StoreReplySize all;
      for (const std::string& key : request.keys) {
        const StoreReplySize one = SizeOf(Find(key));
        all.sent += one.sent;
        all.built += one.built;
      }
      return all;
    }
    case StoreOp::kListKeys:
      return text(kNumberBytes + values_.size() * kNumberBytes + key_bytes_);
    case StoreOp::kCompareSet:  // One of the three.
      return text(SizeOf(Find(request.keys[0])).sent + request.values[0].size() +
                  request.values[1].size());
    case StoreOp::kQueuePop: {
      const auto queue = queues_.find(request.keys[0]);
      StoreReplySize size =
          queue == queues_.end() ? StoreReplySize{} : SizeOf(queue->second.front());
      size.sent += kNumberBytes;
      size.built += kNumberBytes;
      return size;
    }
    default:
      return text(kNumberBytes);
  }
}

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
    case StoreOp::kListKeys: {
      KeysReply reply;
      reply.keys.reserve(values_.size());
      for (const auto& [key, value] : values_) {
        reply.keys.push_back(key);
      }
      return reply;
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

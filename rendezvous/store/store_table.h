// Decides what each request does to the store and which answers clients get: keys, queues, barrier
// counters and the clients that wait for them.
//
// Pure: no socket, clock, thread or log. A refused request changes nothing, and the caller
// disconnects its client. Behaves as torch's libuv server does, with two exceptions: no client is
// woken by a compare_set that stored nothing, or because one of several keys was set twice.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/result.h"
#include "rendezvous/store/store_messages.h"

namespace ddprun {

using StoreClientId = Number<struct StoreClientTag>;  // One connection; never used again.

struct StoreAnswer {
  StoreClientId client;
  StoreReply reply;
};

class StoreTable {
 public:
  // Keys, values, queued values, awaited keys, and the queues for which clients were woken together
  // never exceed `max_bytes`. A value counts as long as the table or an answer refers to it.
  explicit StoreTable(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Appends the answers in the order in which they must be sent. For any op except VALIDATE.
  Result<void> Apply(StoreClientId client, StoreRequest request, std::vector<StoreAnswer>& answers);

  // The client is gone: it no longer waits. If it was woken for a queued value and did not take it,
  // the next waiting client is woken.
  void Forget(StoreClientId client, std::vector<StoreAnswer>& answers);

  std::size_t bytes() const { return bytes_ + *value_bytes_; }
  std::size_t waiters() const { return waits_.size(); }

 private:
  struct Wait {
    std::uint64_t ticket = 0;  // Order of waiting clients at a queue.
    std::set<std::string> missing;
  };
  using Answers = std::vector<StoreAnswer>;

  StoreReply Read(const StoreRequest& request) const;
  Result<void> Set(const std::string& key, std::string value, Answers& answers);
  Result<void> CompareSet(StoreClientId client, StoreRequest request, Answers& answers);
  Result<void> Add(StoreClientId client, const std::string& key, std::int64_t delta,
                   Answers& answers);
  Result<void> Append(const std::string& key, std::string value, Answers& answers);
  Result<void> MultiSet(StoreRequest request, Answers& answers);
  Result<void> QueuePush(const std::string& key, std::string value, Answers& answers);
  Result<void> ListKeys(StoreClientId client, Answers& answers) const;
  StoreReply QueuePop(StoreClientId client, const std::string& key);
  Result<void> Barrier(StoreClientId client, const std::string& key, std::int64_t world_size,
                       Answers& answers);
  Result<void> WaitFor(StoreClientId client, std::set<std::string> missing);
  Result<std::int64_t> NumberAt(const std::string& key) const;

  Result<StoreValue> Keep(std::string bytes) const;
  Result<void> Store(const std::string& key, std::string bytes);
  std::int64_t Delete(const std::string& key);
  std::set<std::string> Missing(std::vector<std::string> keys) const;
  bool Has(const std::string& key) const;
  StoreValue Find(const std::string& key) const;
  void Wake(const std::string& key, Answers& answers);
  void WakeOne(const std::string& queue, Answers& answers);
  void Offer(StoreClientId client, const std::string& queue);
  void StopWaiting(StoreClientId client);
  Result<void> CheckRoom(std::size_t more) const;
  Result<void> Charge(std::size_t more);

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;  // Of everything except the values.
  std::shared_ptr<std::size_t> value_bytes_ = std::make_shared<std::size_t>(0);
  std::uint64_t last_ticket_ = 0;
  std::map<std::string, StoreValue> values_;
  std::map<std::string, std::deque<StoreValue>> queues_;  // Without empty ones.
  std::map<StoreClientId, Wait> waits_;
  std::map<std::string, std::set<std::pair<std::uint64_t, StoreClientId>>> waiting_for_;
  std::map<StoreClientId, std::string> offered_;  // Clients woken for a queue, until they pop.
};

}  // namespace ddprun

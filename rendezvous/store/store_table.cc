#include "rendezvous/store/store_table.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace ddprun {
namespace {

constexpr std::uint8_t kStopWaiting = 0;
constexpr std::uint8_t kWaitCanceled = 1;

// What an entry costs beside its own bytes, so that many empty ones are bounded too.
constexpr std::size_t kEntryBytes = 128;

// And a queue, beside what is in it.
constexpr std::size_t kQueueBytes = 768;

std::size_t Cost(const std::string& key, const StoreValue& value) {
  return kEntryBytes + key.size() + value->size();
}

// An awaited key is kept twice: with its client and with the key's other clients.
std::size_t WaitCost(const std::string& key) {
  return 2 * (kEntryBytes + key.size());
}

// Until who was woken for a queue has come for it.
std::size_t OfferCost(const std::string& queue) {
  return kEntryBytes + queue.size();
}

StoreValue ValueOf(std::string bytes) {
  return std::make_shared<std::string>(std::move(bytes));
}

// torch's server wraps around; signed overflow would be undefined here.
std::int64_t WrappingSum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

void Tell(std::vector<StoreAnswer>& answers, StoreClientId client, StoreReply&& reply) {
  StoreAnswer& answer = answers.emplace_back();
  answer.client = client;
  answer.reply = std::move(reply);
}

}  // namespace

Result<void> StoreTable::Apply(StoreClientId client, StoreRequest request, Answers& answers) {
  auto& [op, keys, values, number] = request;
  switch (op) {
    case StoreOp::kValidate:
      return Error{ErrorKind::kInvalid, "VALIDATE sent twice"};
    case StoreOp::kSet:
      return Set(keys[0], std::move(values[0]), answers);
    case StoreOp::kCompareSet:
      return CompareSet(client, std::move(request), answers);
    case StoreOp::kAdd:
      return Add(client, keys[0], number, answers);
    case StoreOp::kWait: {
      std::set<std::string> missing = Missing(std::move(keys));
      if (!missing.empty()) {
        return WaitFor(client, std::move(missing));
      }
      Tell(answers, client, ByteReply{kStopWaiting});
      return {};
    }
    case StoreOp::kDeleteKey:
      Tell(answers, client, NumberReply{Delete(keys[0])});
      return {};
    case StoreOp::kAppend:
      return Append(keys[0], std::move(values[0]), answers);
    case StoreOp::kMultiSet:
      return MultiSet(std::move(request), answers);
    case StoreOp::kCancelWait:  // Also when nothing waits: the wait's own answer may be under way.
      StopWaiting(client);
      Tell(answers, client, ByteReply{kWaitCanceled});
      return {};
    case StoreOp::kQueuePush:
      return QueuePush(keys[0], std::move(values[0]), answers);
    case StoreOp::kQueuePop:
      Tell(answers, client, QueuePop(client, keys[0]));
      return {};
    case StoreOp::kBarrier:
      return Barrier(client, keys[0], number, answers);
    case StoreOp::kGet:
    case StoreOp::kCheck:
    case StoreOp::kGetNumKeys:
    case StoreOp::kMultiGet:
    case StoreOp::kPing:
    case StoreOp::kQueueLen:
    case StoreOp::kListKeys:
      Tell(answers, client, Read(request));
      return {};
  }
  CHECK(false);  // The parser knows no other op.
}

void StoreTable::Forget(StoreClientId client, Answers& answers) {
  StopWaiting(client);
  const auto offer = offered_.find(client);
  if (offer == offered_.end()) {
    return;
  }
  const std::string name = std::move(offer->second);
  bytes_ -= OfferCost(name);
  offered_.erase(offer);
  const auto queue = queues_.find(name);
  const auto offers = std::count_if(offered_.begin(), offered_.end(),
                                    [&](const auto& other) { return other.second == name; });
  if (queue != queues_.end() && queue->second.size() > static_cast<std::size_t>(offers)) {
    WakeOne(name, answers);
  }
}

void StoreTable::Clear() {
  values_.clear();
  queues_.clear();
  waits_.clear();
  waiting_for_.clear();
  offered_.clear();
  bytes_ = 0;
  key_bytes_ = 0;
}

Result<void> StoreTable::Set(const std::string& key, std::string value, Answers& answers) {
  RETURN_IF_ERROR(Store(key, ValueOf(std::move(value))));
  Wake(key, answers);
  return {};
}

// A missing key with something expected is answered with what was expected, and stores nothing:
// torch's clients know that.
Result<void> StoreTable::CompareSet(StoreClientId client, StoreRequest request, Answers& answers) {
  const std::string& key = request.keys[0];
  std::string& expected = request.values[0];
  const StoreValue now = Find(key);
  const bool matches = now == nullptr ? expected.empty() : *now == expected;
  if (matches) {
    RETURN_IF_ERROR(Set(key, std::move(request.values[1]), answers));
  }
  const bool missing = now == nullptr && !matches;
  Tell(answers, client, ValuesReply{{missing ? ValueOf(std::move(expected)) : Find(key)}});
  return {};
}

Result<void> StoreTable::Add(StoreClientId client, const std::string& key, std::int64_t delta,
                             Answers& answers) {
  ASSIGN_OR_RETURN(const std::int64_t before, NumberAt(key));
  const std::int64_t sum = WrappingSum(before, delta);
  RETURN_IF_ERROR(Set(key, std::to_string(sum), answers));
  Tell(answers, client, NumberReply{sum});
  return {};
}

Result<void> StoreTable::Append(const std::string& key, std::string value, Answers& answers) {
  const auto entry = values_.find(key);
  if (entry == values_.end()) {
    return Set(key, std::move(value), answers);
  }
  RETURN_IF_ERROR(Charge(value.size()));
  if (entry->second.use_count() > 1) {  // A reply on its way must not see it change.
    entry->second = std::make_shared<std::string>(*entry->second);
  }
  std::const_pointer_cast<std::string>(entry->second)->append(value);
  Wake(key, answers);
  return {};
}

Result<void> StoreTable::MultiSet(StoreRequest request, Answers& answers) {
  std::size_t more = 0;
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    more += kEntryBytes + request.keys[i].size() + request.values[i].size();
  }
  RETURN_IF_ERROR(Charge(more));  // All of it or nothing.
  bytes_ -= more;
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    RETURN_IF_ERROR(Set(request.keys[i], std::move(request.values[i]), answers));
  }
  return {};
}

Result<void> StoreTable::QueuePush(const std::string& key, std::string value, Answers& answers) {
  StoreValue item = ValueOf(std::move(value));
  RETURN_IF_ERROR(Charge(Cost(key, item) + (queues_.contains(key) ? 0 : kQueueBytes)));
  queues_[key].push_back(std::move(item));
  WakeOne(key, answers);
  return {};
}

StoreReply StoreTable::QueuePop(StoreClientId client, const std::string& key) {
  const auto offer = offered_.find(client);
  if (offer != offered_.end() && offer->second == key) {
    bytes_ -= OfferCost(key);
    offered_.erase(offer);
  }
  const auto queue = queues_.find(key);
  if (queue == queues_.end()) {
    return PopReply{};
  }
  PopReply reply{static_cast<std::int64_t>(queue->second.size()), queue->second.front()};
  queue->second.pop_front();
  bytes_ -= Cost(key, reply.value);
  if (queue->second.empty()) {
    bytes_ -= kQueueBytes;
    queues_.erase(queue);
  }
  return reply;
}

// The counter is an ordinary key, as in torch: it stays when a client cancels, and a later
// barrier of the same name goes on from it.
Result<void> StoreTable::Barrier(StoreClientId client, const std::string& key,
                                 std::int64_t world_size, Answers& answers) {
  ASSIGN_OR_RETURN(const std::int64_t before, NumberAt(key));
  const std::int64_t arrived = WrappingSum(before, 1);
  if (arrived < world_size) {
    RETURN_IF_ERROR(WaitFor(client, {key}));
    return Store(key, ValueOf(std::to_string(arrived)));
  }
  RETURN_IF_ERROR(Set(key, std::to_string(arrived), answers));
  Tell(answers, client, ByteReply{kStopWaiting});
  return {};
}

// A client has one wait, the newest.
Result<void> StoreTable::WaitFor(StoreClientId client, std::set<std::string> missing) {
  StopWaiting(client);
  std::size_t cost = 0;
  for (const std::string& key : missing) {
    cost += WaitCost(key);
  }
  RETURN_IF_ERROR(Charge(cost));
  const std::uint64_t ticket = ++last_ticket_;
  for (const std::string& key : missing) {
    waiting_for_[key].insert({ticket, client});
  }
  waits_[client] = {ticket, std::move(missing)};
  return {};
}

// Reads a number as torch's server does (std::stoll): leading blanks and trailing text pass.
Result<std::int64_t> StoreTable::NumberAt(const std::string& key) const {
  const StoreValue value = Find(key);
  if (value == nullptr) {
    return 0;
  }
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(value->c_str(), &end, 10);
  if (end == value->c_str() || errno == ERANGE) {
    return Invalid("cannot count with a value that is not a number", value->substr(0, 40));
  }
  return number;
}

Result<void> StoreTable::Store(const std::string& key, StoreValue value) {
  const auto entry = values_.find(key);
  const std::size_t before = entry == values_.end() ? 0 : Cost(key, entry->second);
  const std::size_t after = Cost(key, value);
  if (after > before) {
    RETURN_IF_ERROR(Charge(after - before));
  } else {
    bytes_ -= before - after;
  }
  if (entry == values_.end()) {
    values_.emplace(key, std::move(value));
    key_bytes_ += key.size();
  } else {
    entry->second = std::move(value);
  }
  return {};
}

std::int64_t StoreTable::Delete(const std::string& key) {
  const auto entry = values_.find(key);
  if (entry == values_.end()) {
    return 0;
  }
  bytes_ -= Cost(key, entry->second);
  key_bytes_ -= key.size();
  values_.erase(entry);
  return 1;
}

void StoreTable::Wake(const std::string& key, Answers& answers) {
  const auto waiting = waiting_for_.find(key);
  if (waiting == waiting_for_.end()) {
    return;
  }
  for (const auto& [ticket, client] : waiting->second) {
    const auto wait = waits_.find(client);
    wait->second.missing.erase(key);
    bytes_ -= WaitCost(key);
    if (wait->second.missing.empty()) {
      waits_.erase(wait);
      Tell(answers, client, ByteReply{kStopWaiting});
    }
  }
  waiting_for_.erase(waiting);
}

// One value can satisfy one client; the others would find the queue empty.
void StoreTable::WakeOne(const std::string& queue, Answers& answers) {
  const auto waiting = waiting_for_.find(queue);
  if (waiting == waiting_for_.end()) {
    return;
  }
  bool woke = false;
  while (!woke && !waiting->second.empty()) {
    const StoreClientId client = waiting->second.begin()->second;
    waiting->second.erase(waiting->second.begin());
    bytes_ -= WaitCost(queue);
    const auto wait = waits_.find(client);
    wait->second.missing.erase(queue);
    woke = wait->second.missing.empty();
    if (woke) {
      waits_.erase(wait);
      Offer(client, queue);
      Tell(answers, client, ByteReply{kStopWaiting});
    }
  }
  if (waiting->second.empty()) {
    waiting_for_.erase(waiting);
  }
}

// In place of the wait, which took more; and of an earlier offer.
void StoreTable::Offer(StoreClientId client, const std::string& queue) {
  if (const auto earlier = offered_.find(client); earlier != offered_.end()) {
    bytes_ -= OfferCost(earlier->second);
  }
  offered_[client] = queue;
  bytes_ += OfferCost(queue);
}

void StoreTable::StopWaiting(StoreClientId client) {
  const auto wait = waits_.find(client);
  if (wait == waits_.end()) {
    return;
  }
  for (const std::string& key : wait->second.missing) {
    const auto waiting = waiting_for_.find(key);
    waiting->second.erase({wait->second.ticket, client});
    if (waiting->second.empty()) {
      waiting_for_.erase(waiting);
    }
    bytes_ -= WaitCost(key);
  }
  waits_.erase(wait);
}

Result<void> StoreTable::Charge(std::size_t more) {
  if (more > max_bytes_ - bytes_) {
    return Error{ErrorKind::kRefused, "the store is full (" + std::to_string(bytes_) + " of " +
                                          std::to_string(max_bytes_) + " bytes used)"};
  }
  bytes_ += more;
  return {};
}

}  // namespace ddprun

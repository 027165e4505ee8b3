#include "rendezvous/store/store_table.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace ddprun {
namespace {

constexpr std::uint8_t kReady = 0;
constexpr std::uint8_t kNotReady = 1;
constexpr std::uint8_t kStopWaiting = 0;
constexpr std::uint8_t kWaitCanceled = 1;

// The cost of an entry beside its own bytes, so that many empty ones are bounded too.
constexpr std::size_t kEntryBytes = 128;
constexpr std::size_t kValueBytes = 64;

// The cost of a queue, beside its values.
constexpr std::size_t kQueueBytes = 768;

// The cost of a key, of each place in a queue, and of a queue for which a client was woken.
std::size_t EntryCost(const std::string& key) {
  return kEntryBytes + key.size();
}

// An awaited key is kept twice: with its client and with the key's other clients.
std::size_t WaitCost(const std::string& key) {
  return 2 * EntryCost(key);
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
    case StoreOp::kCancelWait:  // Also without a wait: its answer may have been sent already.
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
    case StoreOp::kListKeys:
      return ListKeys(client, answers);
    case StoreOp::kGet:
    case StoreOp::kCheck:
    case StoreOp::kGetNumKeys:
    case StoreOp::kMultiGet:
    case StoreOp::kPing:
    case StoreOp::kQueueLen:
      Tell(answers, client, Read(request));
      return {};
  }
  CHECK(false);  // The parser knows no other op.
}

// The requests that change nothing.
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

void StoreTable::Forget(StoreClientId client, Answers& answers) {
  StopWaiting(client);
  const auto offer = offered_.find(client);
  if (offer == offered_.end()) {
    return;
  }
  const std::string name = std::move(offer->second);
  bytes_ -= EntryCost(name);
  offered_.erase(offer);
  const auto queue = queues_.find(name);
  const auto offers = std::count_if(offered_.begin(), offered_.end(),
                                    [&](const auto& other) { return other.second == name; });
  if (queue != queues_.end() && queue->second.size() > static_cast<std::size_t>(offers)) {
    WakeOne(name, answers);
  }
}

Result<void> StoreTable::Set(const std::string& key, std::string value, Answers& answers) {
  RETURN_IF_ERROR(Store(key, std::move(value)));
  Wake(key, answers);
  return {};
}

// If the key is missing and the expected value is not empty, nothing is stored and the answer is
// the expected value: torch's clients rely on that.
Result<void> StoreTable::CompareSet(StoreClientId client, StoreRequest request, Answers& answers) {
  const std::string& key = request.keys[0];
  std::string& expected = request.values[0];
  const StoreValue now = Find(key);
  const bool matches = now == nullptr ? expected.empty() : *now == expected;
  if (matches) {
    RETURN_IF_ERROR(Set(key, std::move(request.values[1]), answers));
  }
  StoreValue answer = Find(key);
  if (answer == nullptr) {
    ASSIGN_OR_RETURN(answer, Keep(std::move(expected)));
  }
  Tell(answers, client, ValuesReply{{std::move(answer)}});
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
  if (entry->second.use_count() > 1) {  // An unsent answer refers to it and must not change.
    RETURN_IF_ERROR(Store(key, *entry->second + value));
  } else {
    RETURN_IF_ERROR(CheckRoom(value.size()));
    std::const_pointer_cast<std::string>(entry->second)->append(value);
    *value_bytes_ += value.size();
  }
  Wake(key, answers);
  return {};
}

Result<void> StoreTable::MultiSet(StoreRequest request, Answers& answers) {
  std::size_t more = 0;
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    more += EntryCost(request.keys[i]) + kValueBytes + request.values[i].size();
  }
  RETURN_IF_ERROR(CheckRoom(more));  // All of it or nothing.
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    RETURN_IF_ERROR(Set(request.keys[i], std::move(request.values[i]), answers));
  }
  return {};
}

Result<void> StoreTable::QueuePush(const std::string& key, std::string value, Answers& answers) {
  ASSIGN_OR_RETURN(StoreValue item, Keep(std::move(value)));
  RETURN_IF_ERROR(Charge(EntryCost(key) + (queues_.contains(key) ? 0 : kQueueBytes)));
  queues_[key].push_back(std::move(item));
  WakeOne(key, answers);
  return {};
}

StoreReply StoreTable::QueuePop(StoreClientId client, const std::string& key) {
  const auto offer = offered_.find(client);
  if (offer != offered_.end() && offer->second == key) {
    bytes_ -= EntryCost(key);
    offered_.erase(offer);
  }
  const auto queue = queues_.find(key);
  if (queue == queues_.end()) {
    return PopReply{};
  }
  PopReply reply{static_cast<std::int64_t>(queue->second.size()), queue->second.front()};
  queue->second.pop_front();
  bytes_ -= EntryCost(key);
  if (queue->second.empty()) {
    bytes_ -= kQueueBytes;
    queues_.erase(queue);
  }
  return reply;
}

// As in torch, the counter is an ordinary key. It stays when a client cancels, and a later barrier
// of the same name continues from it.
Result<void> StoreTable::Barrier(StoreClientId client, const std::string& key,
                                 std::int64_t world_size, Answers& answers) {
  ASSIGN_OR_RETURN(const std::int64_t before, NumberAt(key));
  const std::int64_t arrived = WrappingSum(before, 1);
  if (arrived < world_size) {
    RETURN_IF_ERROR(WaitFor(client, {key}));
    return Store(key, std::to_string(arrived));
  }
  RETURN_IF_ERROR(Set(key, std::to_string(arrived), answers));
  Tell(answers, client, ByteReply{kStopWaiting});
  return {};
}

// A client has at most one wait; a new one replaces it.
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

// Reads a number as torch's server does (std::stoll): leading blanks and trailing text are allowed.
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

Result<void> StoreTable::ListKeys(StoreClientId client, Answers& answers) const {
  KeysReply reply;
  reply.keys.reserve(values_.size());
  for (const auto& [key, value] : values_) {
    ASSIGN_OR_RETURN(StoreValue name, Keep(key));
    reply.keys.push_back(std::move(name));
  }
  Tell(answers, client, std::move(reply));
  return {};
}

// Counts the value until no key, queue or unsent answer refers to it any more.
Result<StoreValue> StoreTable::Keep(std::string bytes) const {
  RETURN_IF_ERROR(CheckRoom(kValueBytes + bytes.size()));
  *value_bytes_ += kValueBytes + bytes.size();
  return StoreValue(new std::string(std::move(bytes)), [used = value_bytes_](const auto* value) {
    *used -= kValueBytes + value->size();
    delete value;
  });
}

// There must be room for it beside the value that it replaces, since both exist for a moment.
Result<void> StoreTable::Store(const std::string& key, std::string bytes) {
  ASSIGN_OR_RETURN(StoreValue value, Keep(std::move(bytes)));
  const auto entry = values_.find(key);
  if (entry != values_.end()) {
    entry->second = std::move(value);
    return {};
  }
  RETURN_IF_ERROR(Charge(EntryCost(key)));
  values_.emplace(key, std::move(value));
  return {};
}

std::int64_t StoreTable::Delete(const std::string& key) {
  const auto entry = values_.find(key);
  if (entry == values_.end()) {
    return 0;
  }
  bytes_ -= EntryCost(key);
  values_.erase(entry);
  return 1;
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

// Wakes one client, since one value can satisfy only one: the others would find the queue empty.
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

// Needs no check for room: it takes less than the wait that has just ended.
void StoreTable::Offer(StoreClientId client, const std::string& queue) {
  if (const auto earlier = offered_.find(client); earlier != offered_.end()) {
    bytes_ -= EntryCost(earlier->second);
  }
  offered_[client] = queue;
  bytes_ += EntryCost(queue);
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

Result<void> StoreTable::CheckRoom(std::size_t more) const {
  if (more > max_bytes_ - bytes()) {
    return Error{ErrorKind::kRefused, "the store is full (" + std::to_string(bytes()) + " of " +
                                          std::to_string(max_bytes_) + " bytes used)"};
  }
  return {};
}

Result<void> StoreTable::Charge(std::size_t more) {
  RETURN_IF_ERROR(CheckRoom(more));
  bytes_ += more;
  return {};
}

}  // namespace ddprun

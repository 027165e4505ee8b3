// The requests of the store's clients and their answers, as values without bytes or sockets.
//
// The numbers are those of torch's TCPStore since it begins with VALIDATE; they only ever grew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

enum class StoreOp : std::uint8_t {
  kValidate = 0,    // number = the magic
  kSet = 1,         // keys[0], values[0]
  kCompareSet = 2,  // keys[0], values[0] = expected, values[1] = desired
  kGet = 3,         // keys[0]
  kAdd = 4,         // keys[0], number
  kCheck = 5,       // keys
  kWait = 6,        // keys
  kGetNumKeys = 7,
  kDeleteKey = 8,  // keys[0]
  kAppend = 9,     // keys[0], values[0]
  kMultiGet = 10,  // keys
  kMultiSet = 11,  // keys, values
  kCancelWait = 12,
  kPing = 13,       // number = a nonce of 32 bits
  kQueuePush = 14,  // keys[0], values[0]
  kQueuePop = 15,   // keys[0]
  kQueueLen = 16,   // keys[0]
  kListKeys = 17,
  kBarrier = 18,  // keys[0], number = world size
};
inline constexpr std::uint8_t kStoreOps = 19;

struct StoreRequest {
  StoreOp op = StoreOp::kValidate;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::int64_t number = 0;
};

// Shared, because replies on their way to slow peers must neither copy a large value nor see it
// change.
using StoreValue = std::shared_ptr<const std::string>;

struct ByteReply {
  std::uint8_t byte = 0;
};
struct NumberReply {
  std::int64_t number = 0;
};
struct NonceReply {
  std::uint32_t nonce = 0;
};
struct ValuesReply {  // Each with its length; no count before them. Null: empty.
  std::vector<StoreValue> values;
};
struct KeysReply {  // The count, then each with its length.
  std::vector<StoreValue> keys;
};
struct PopReply {  // The length before the pop, then the value if there was one.
  std::int64_t length = 0;
  StoreValue value;
};
using StoreReply =
    std::variant<ByteReply, NumberReply, NonceReply, ValuesReply, KeysReply, PopReply>;

}  // namespace ddprun

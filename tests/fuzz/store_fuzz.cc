// Bytes that clients send the workers' store: the stream is cut anywhere, and means the same
// however it is cut; its requests are done by a table that never holds more than its bound.
#include <algorithm>
#include <array>
#include <optional>

#include "rendezvous/store/store_protocol.h"
#include "rendezvous/store/store_table.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace ddprun;

constexpr std::size_t kMaxStore = 4096;
constexpr std::size_t kSlack = 128 * 1024;
constexpr StoreLimits kLimits = {
    .key_bytes = 64, .value_bytes = 1024, .keys = 64, .request_bytes = 8192};

bool Same(const StoreRequest& a, const StoreRequest& b) {
  return a.op == b.op && a.keys == b.keys && a.values == b.values && a.number == b.number;
}

struct Parsed {
  std::vector<StoreRequest> requests;
  std::optional<std::string> error;
};

// In pieces of `step` bytes.
Parsed ParseAll(std::string_view bytes, std::size_t step) {
  StoreParser parser(kLimits);
  Parsed parsed;
  while (!bytes.empty() && !parsed.error) {
    std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    while (true) {
      auto request = parser.Parse(piece);
      CHECK(parser.held() <= kLimits.request_bytes + sizeof(std::string));
      if (!request) {
        CHECK(!request.error().message.empty());
        parsed.error = request.error().message;
        break;
      }
      if (!*request) {
        CHECK(piece.empty());
        break;
      }
      parsed.requests.push_back(**std::move(request));
    }
  }
  return parsed;
}

// Each answer leaves whole, in any pieces that the socket takes.
std::string Drain(StoreOutput output, std::size_t step) {
  std::string sent;
  while (!output.empty()) {
    std::array<char, 40> scratch;
    const std::string_view now = output.Next(scratch).substr(0, step);
    CHECK(!now.empty());
    sent += now;
    output.Consume(now.size());
  }
  return sent;
}

// Takes out every key and every queued value that the requests can have made.
void Empty(StoreTable& table, const std::vector<StoreRequest>& requests) {
  std::vector<StoreAnswer> answers;
  for (const StoreRequest& request : requests) {
    for (const std::string& key : request.keys) {
      CHECK(table.Apply({1}, {StoreOp::kDeleteKey, {key}}, answers).has_value());
      std::int64_t queued = 1;
      while (queued > 0) {
        answers.clear();
        CHECK(table.Apply({1}, {StoreOp::kQueuePop, {key}}, answers).has_value());
        queued = std::get<PopReply>(answers.back().reply).length;
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::size_t step = input.Byte() % 32 + 1;
  const std::size_t clients = input.Byte() % 3 + 1;
  const Parsed whole = ParseAll(input.Rest(), size + 1);
  const Parsed cut = ParseAll(input.Rest(), step);
  CHECK(whole.error == cut.error);
  CHECK(std::equal(whole.requests.begin(), whole.requests.end(), cut.requests.begin(),
                   cut.requests.end(), Same));

  const std::size_t before_all = AllocatedBytes();
  StoreTable table(kMaxStore);
  std::vector<StoreAnswer> answers;
  StoreOutput output;
  for (std::size_t i = 0; i < whole.requests.size(); ++i) {
    const StoreClientId client{i % clients + 1};
    if (whole.requests[i].op == StoreOp::kValidate) {
      continue;
    }
    if (!table.Apply(client, whole.requests[i], answers)) {
      table.Forget(client, answers);
    }
    CHECK(table.bytes() <= kMaxStore);
    for (const StoreAnswer& answer : answers) {
      CHECK(answer.client.value >= 1 && answer.client.value <= clients);
      output.Append(answer.reply);
    }
    answers.clear();
    // A key's nodes cost more than their bytes; nothing else is held.
    CHECK(AllocatedBytes() <= before_all + 4 * (table.bytes() + output.held()) + kSlack);
  }
  CHECK(Drain(output, step) == Drain(output, 1000));
  output = {};
  for (std::uint64_t client = 1; client <= clients; ++client) {
    table.Forget({client}, answers);
  }
  CHECK(table.waiters() == 0);
  Empty(table, whole.requests);
  CHECK(table.bytes() == 0);
  return 0;
}

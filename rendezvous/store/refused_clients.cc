#include "rendezvous/store/refused_clients.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "rendezvous/store/store_request.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kAnswer = "ddprun refuses ";
constexpr std::uint32_t kAsks = 0xDD9A57EDu;  // No process's number: those are below 2^22.

}  // namespace

std::string RefusalQuestion() {
  return wire::Validate() + wire::Ping(kAsks);
}

std::optional<Refusal> ReadRefusal(std::string_view answer) {
  if (!answer.starts_with(kAnswer) || !answer.ends_with('\n')) {
    return std::nullopt;
  }
  answer.remove_prefix(kAnswer.size());
  answer.remove_suffix(1);
  Refusal refusal;
  const std::size_t space = answer.find(' ');
  refusal.allow = answer.substr(0, space);
  answer.remove_prefix(std::min(space, answer.size() - 1) + 1);
  const auto [end, error] =
      std::from_chars(answer.data(), answer.data() + answer.size(), refusal.count);
  if (space == std::string_view::npos || error != std::errc{}) {
    return std::nullopt;
  }
  answer.remove_prefix(static_cast<std::size_t>(end - answer.data()));
  refusal.why = answer.substr(std::min<std::size_t>(1, answer.size()));
  return refusal;
}

void RefusedClients::Take(asio::ip::tcp::socket socket, std::string allow, std::string why) {
  boost::system::error_code error;
  socket.non_blocking(true, error);
  if (kept_.size() == kMostKept) {
    kept_.erase(kept_.begin());
  }
  const std::uint64_t id = ++last_;
  kept_.emplace(
      id, Kept{std::move(socket), std::move(allow), std::move(why), {}, loop_.Now() + kPatience});
  if (kept_.size() == 1) {
    expiry_.ArmAt(kept_.begin()->second.until, [this] { Expire(); });
  }
  OnReadable(id);
}

void RefusedClients::OnReadable(std::uint64_t id) {
  const auto found = kept_.find(id);
  if (found == kept_.end()) {
    return;
  }
  Kept& kept = found->second;
  std::array<char, 64> bytes{};
  boost::system::error_code error;
  const std::size_t size = kept.socket.read_some(asio::buffer(bytes), error);
  kept.read.append(bytes.data(), size);
  const std::string client = wire::Validate();
  const bool ended =
      error && error != asio::error::would_block && error != asio::error::interrupted;
  if (!ended && kept.read.size() < client.size()) {
    kept.socket.async_wait(asio::ip::tcp::socket::wait_read,
                           life_.Guard([this, id](boost::system::error_code failed) {
                             if (!failed) {
                               OnReadable(id);
                             }
                           }));
    return;
  }
  if (kept.read == RefusalQuestion()) {
    Answer(kept);
  } else if (kept.read.starts_with(client)) {
    Count(kept);
  }
  kept_.erase(found);
}

void RefusedClients::Count(const Kept& kept) {
  const std::string place = kept.allow + " " + kept.why;
  if (counts_.size() < kMostCounted || counts_.contains(place)) {
    ++counts_[place];
  }
}

// Fits in the socket's buffer; a client that does not take it does not get it.
void RefusedClients::Answer(Kept& kept) {
  const auto counted = counts_.find(kept.allow + " " + kept.why);
  const std::uint64_t count = counted == counts_.end() ? 0 : counted->second;
  const std::string text =
      std::string(kAnswer) + kept.allow + " " + std::to_string(count) + " " + kept.why + "\n";
  boost::system::error_code ignored;
  kept.socket.write_some(asio::buffer(text), ignored);
}

void RefusedClients::Expire() {
  while (!kept_.empty() && kept_.begin()->second.until <= loop_.Now()) {
    kept_.erase(kept_.begin());
  }
  if (!kept_.empty()) {
    expiry_.ArmAt(kept_.begin()->second.until, [this] { Expire(); });
  }
}

}  // namespace ddprun

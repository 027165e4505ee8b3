#include "launcher/server/store_probe.h"

#include <boost/asio/ip/address.hpp>
#include <utility>

#include "common/log.h"
#include "common/slug.h"
#include "rendezvous/store/refused_clients.h"

namespace ddprun {
namespace {

namespace ip = boost::asio::ip;

constexpr Duration kBetweenAttempts{250};
constexpr std::size_t kLongestAnswer = 1'024;
constexpr char kRefusalBegins = 'd';  // A store that lets this node in answers with the question's
                                      // number.

std::string InWords(const Refusal& refusal, const std::string& store) {
  return "the workers' store at " + store + " refuses this node's workers: " + refusal.why +
         (refusal.allow == "any" ? ""
                                 : "; it sees their connections come from " + refusal.allow +
                                       ", perhaps through a NAT, proxy or sidecar") +
         ". Set --store-allow=" + refusal.allow + " on every node [store-refuses]";
}

}  // namespace

StoreProbe::StoreProbe(AsioLoop& loop, Patience patience, Tells tells)
    : loop_(loop), patience_(patience), tells_(std::move(tells)), again_(loop), limit_(loop) {}

void StoreProbe::Begin(const Endpoint& store) {
  Cancel();
  warned_ = false;
  tries_since_.reset();
  boost::system::error_code error;
  const ip::address address = ip::make_address(store.host, error);
  if (error) {
    return;
  }
  name_ = ToString(store);
  store_ = {address, store.port};
  last_ = "no answer";
  limit_.ArmAt(loop_.Now() + patience_.unreachable, [this] {
    const std::string text = "cannot connect to " + name_ + " (" + last_ + ", for " +
                             FormatDuration(patience_.unreachable) +
                             "), the workers' store on the node of rank 0. If this node is not on "
                             "the network of that address, choose another one on that node: "
                             "--interface=NAME or --local-addr=ADDRESS [store-unreachable]";
    Cancel();
    tells_.warning(text);
  });
  Connect();
}

void StoreProbe::Cancel() {
  socket_.reset();
  again_.Cancel();
  limit_.Cancel();
}

void StoreProbe::Connect() {
  socket_ = std::make_shared<ip::tcp::socket>(loop_.io());
  socket_->async_connect(
      store_, [this, mine = std::weak_ptr(socket_)](const boost::system::error_code& error) {
        if (!mine.expired()) {  // Else another attempt has begun, or this is destroyed.
          OnTried(error);
        }
      });
}

void StoreProbe::OnTried(const boost::system::error_code& error) {
  if (error) {
    last_ = error.message();
    again_.ArmAt(loop_.Now() + kBetweenAttempts, [this] { Connect(); });
    return;
  }
  limit_.Cancel();
  answer_.clear();
  boost::system::error_code ignored;  // Then no answer comes.
  socket_->non_blocking(true, ignored);
  socket_->write_some(boost::asio::buffer(RefusalQuestion()), ignored);
  Read();
}

void StoreProbe::Read() {
  socket_->async_read_some(
      boost::asio::buffer(buffer_), [this, mine = std::weak_ptr(socket_)](
                                        const boost::system::error_code& error, std::size_t size) {
        if (mine.expired()) {
          return;
        }
        answer_.append(buffer_.data(), size);
        const bool more = answer_.starts_with(kRefusalBegins) && !answer_.ends_with('\n') &&
                          answer_.size() < kLongestAnswer;
        if (!error && more) {
          Read();
        } else {
          OnAnswer();
        }
      });
}

// The answer may come from any program: one that is not a refusal in a store's words changes
// nothing.
void StoreProbe::OnAnswer() {
  const std::optional<Refusal> refusal = ReadRefusal(answer_);
  Cancel();
  if (!refusal) {
    return;
  }
  const std::string text = InOneLine(InWords(*refusal, name_));
  if (refusal->count > 0 && !tries_since_) {
    tries_since_ = loop_.Now();
  }
  const std::uint64_t most = refused_before_ ? 1 : patience_.most;
  if (refusal->count >= most ||
      (tries_since_ && loop_.Now() >= *tries_since_ + patience_.refused)) {
    refused_before_ = true;
    tells_.on_refused(Continue(
        text, " (it has already refused " + std::to_string(refusal->count) + " such connections)"));
    return;
  }
  if (!std::exchange(warned_, true)) {
    tells_.warning(text);
  }
  again_.ArmAt(loop_.Now() + patience_.between, [this] { Connect(); });
}

}  // namespace ddprun

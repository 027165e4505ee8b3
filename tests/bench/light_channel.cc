#include "tests/bench/light_channel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "rendezvous/listener/openssl.h"
#include "rendezvous/listener/token_proof.h"
#include "rendezvous/wire/convert.h"
#include "tests/bench/light_frames.h"

namespace ddprun {
namespace {

using Descriptor = boost::asio::posix::stream_descriptor;
using Session = std::unique_ptr<SSL, FreeOf<SSL_free>>;

std::size_t dialled = 0;
constexpr Duration kAttempt{10'000};

// All channels have one token, and show one certificate.
SSL_CTX* Context(const std::string& token) {
  static SSL_CTX* const context = [&token] {
    SSL_CTX* const made = SSL_CTX_new(TLS_client_method());
    CHECK(made != nullptr);
    SSL_CTX_set_verify(made, SSL_VERIFY_NONE, nullptr);  // By what it proves, below.
    constexpr std::array<unsigned char, 3> kH2 = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(made, kH2.data(), kH2.size());
    const Result<Tls> drawn = DrawCertificate(token);
    CHECK(drawn.has_value());
    const Bio certificate_text(BIO_new_mem_buf(drawn->certificate.data(), -1));
    const Bio key_text(BIO_new_mem_buf(drawn->key.data(), -1));
    const Certificate certificate(
        PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
    const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
    CHECK(SSL_CTX_use_certificate(made, certificate.get()) == 1 &&
          SSL_CTX_use_PrivateKey(made, key.get()) == 1);
    return made;
  }();
  return context;
}

// One that has been looked at before is known.
bool Proves(SSL* session, const std::string& token) {
  static std::string known;
  const Certificate certificate(SSL_get1_peer_certificate(session));
  const Bio out(BIO_new(BIO_s_mem()));
  if (!certificate || PEM_write_bio_X509(out.get(), certificate.get()) != 1) {
    return false;
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  const std::string_view text(data, static_cast<std::size_t>(size));
  if (text != known && ProvesToken(text, token)) {
    known = text;
  }
  return text == known;
}

}  // namespace

class LightChannel::State : public std::enable_shared_from_this<LightChannel::State> {
 public:
  State(AsioLoop& loop, const Endpoint& endpoint, std::string token)
      : loop_(loop),
        port_(endpoint.port),
        token_(std::move(token)),
        socket_(loop.io()),
        limit_(loop) {}

  void Send(const NodeReport& report, Duration deadline, Done done);
  void Cancel();
  void Hang();

 private:
  void Dial();
  void Wait();
  void OnReady(std::uint64_t connection);
  bool GreetsWell();
  void Flush();
  bool Take();
  bool OnFrame(FrameType type, char flags, std::uint32_t stream, std::string_view payload);
  void End(Result<SyncReply> reply);
  void OnOverdue(const std::string& why);
  void Fail(const std::string& why) { End(Error{ErrorKind::kUnavailable, why}); }

  AsioLoop& loop_;
  const std::uint16_t port_;
  const std::string token_;
  Descriptor socket_;
  Time dialled_at_;
  Session session_;
  LoopTimer limit_;
  std::uint64_t connection_ = 0;  // Which of this node's, so that a wait for an old one is none.
  bool greeted_ = false;
  bool waits_ = false;
  std::uint32_t stream_ = 1;  // The next call's.
  std::string out_, in_, message_;
  std::uint64_t sequence_ = 0;
  Done done_;  // None: no call is open.
};

void LightChannel::State::Send(const NodeReport& report, Duration deadline, Done done) {
  Cancel();
  if (!socket_.is_open()) {
    Dial();
  }
  sequence_ = report.sequence;
  done_ = std::move(done);
  message_.clear();
  limit_.ArmAt(loop_.Now() + deadline,
               [this, deadline] { OnOverdue("no answer within " + FormatDuration(deadline)); });
  v1::SyncRequest wire;
  ToProto(report, &wire);
  const std::string request = wire.SerializeAsString();
  out_ +=
      Frame(kHeaders, kEndHeaders, stream_, CallHeaders(token_)) +
      Frame(kData, kEndStream, stream_,
            std::string(1, '\0') + Octets(static_cast<std::uint32_t>(request.size()), 4) + request);
  if (greeted_) {
    Flush();
  }
}

void LightChannel::State::Cancel() {
  limit_.Cancel();
  if (!std::exchange(done_, nullptr)) {
    return;
  }
  if (greeted_) {
    out_ += Frame(kReset, 0, stream_, Octets(8, 4));  // CANCEL
    stream_ += 2;
    Flush();
  } else {
    out_ = Greeting();  // The server has not heard of it.
  }
}

// As gRPC's: one that is still being made is kept for as long as its attempt may take.
void LightChannel::State::OnOverdue(const std::string& why) {
  if (greeted_ || loop_.Now() - dialled_at_ > kAttempt) {
    Fail(why);
    return;
  }
  const Done done = std::move(done_);
  Cancel();
  done_ = nullptr;
  out_ = Greeting();
  done(sequence_, Error{ErrorKind::kUnavailable, why});
}

void LightChannel::State::Hang() {
  session_.reset();
  boost::system::error_code ignored;
  socket_.close(ignored);
  ++connection_;
  greeted_ = waits_ = false;
  out_.clear();
  in_.clear();
}

void LightChannel::State::Dial() {
  ++dialled;
  dialled_at_ = loop_.Now();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  CHECK(fd >= 0);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ||
        errno == EINPROGRESS);
  socket_.assign(fd);
  if (!token_.empty()) {
    session_.reset(SSL_new(Context(token_)));
    CHECK(session_ && SSL_set_fd(session_.get(), fd) == 1);
    SSL_set_connect_state(session_.get());
  }
  stream_ = 1;
  out_ = Greeting();
  // At once where it can be, as a machine of its own would: not after ten thousand others have
  // dialled.
  socklen_t size = sizeof address;
  const bool connected = ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (connected && session_) {
    static_cast<void>(SSL_do_handshake(session_.get()));  // Its result is asked for later.
    ERR_clear_error();
  }
  greeted_ = connected && !session_;
  socket_.async_wait(Descriptor::wait_write, [weak = weak_from_this(), number = connection_](
                                                 boost::system::error_code error) {
    if (const auto self = weak.lock(); self && !error) {
      self->OnReady(number);
    }
  });
}

void LightChannel::State::Wait() {
  if (std::exchange(waits_, true)) {
    return;
  }
  socket_.async_wait(Descriptor::wait_read, [weak = weak_from_this(), number = connection_](
                                                boost::system::error_code error) {
    if (const auto self = weak.lock(); self && !error && number == self->connection_) {
      self->waits_ = false;
      self->OnReady(number);
    }
  });
}

void LightChannel::State::OnReady(std::uint64_t connection) {
  if (connection != connection_) {
    return;
  }
  if (!greeted_) {
    if (!GreetsWell()) {
      return;
    }
    greeted_ = true;
    Flush();
  }
  // A call that ends may hang up, or send the next one.
  while (connection == connection_ && Take()) {
  }
  if (connection == connection_) {
    Wait();
  }
}

// False: not yet, or never.
bool LightChannel::State::GreetsWell() {
  if (!session_) {
    return true;
  }
  ERR_clear_error();
  const int result = SSL_do_handshake(session_.get());
  if (result == 1) {
    if (Proves(session_.get(), token_)) {
      return true;
    }
    Fail("the certificate does not prove the token");
    return false;
  }
  if (SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_READ) {
    Wait();
    return false;
  }
  Fail("the handshake failed: " + LastOpenSslError());
  return false;
}

// All of it, since a report is far smaller than the kernel's buffer; where it cannot be, the end of
// the connection is read next.
void LightChannel::State::Flush() {
  if (session_ && !out_.empty()) {
    SSL_write(session_.get(), out_.data(), static_cast<int>(out_.size()));
    ERR_clear_error();
  } else if (!out_.empty()) {
    static_cast<void>(::send(socket_.native_handle(), out_.data(), out_.size(), MSG_NOSIGNAL));
  }
  out_.clear();
}

// False: nothing more has come.
bool LightChannel::State::Take() {
  std::array<char, 16'384> bytes;
  const int count =
      session_ ? SSL_read(session_.get(), bytes.data(), bytes.size())
               : static_cast<int>(::recv(socket_.native_handle(), bytes.data(), bytes.size(), 0));
  if (count <= 0) {
    const bool later = session_ ? SSL_get_error(session_.get(), count) == SSL_ERROR_WANT_READ
                                : count < 0 && (errno == EAGAIN || errno == EINTR);
    ERR_clear_error();
    if (!later) {
      Hang();
      Fail("the connection ended");
    }
    return false;
  }
  in_.append(bytes.data(), static_cast<std::size_t>(count));
  while (in_.size() >= kFrameHeader) {
    const std::size_t size = NumberOf(std::string_view(in_).substr(0, 3));
    if (in_.size() < kFrameHeader + size) {
      break;
    }
    const std::string frame = in_.substr(0, kFrameHeader + size);
    in_.erase(0, kFrameHeader + size);
    if (!OnFrame(static_cast<FrameType>(frame[3]), frame[4],
                 NumberOf(std::string_view(frame).substr(5, 4)),
                 std::string_view(frame).substr(kFrameHeader))) {
      return false;
    }
  }
  return true;
}

// False: the connection is no more. An answer is its message, whole; one without a message is a
// refusal, regardless of its headers.
bool LightChannel::State::OnFrame(FrameType type, char flags, std::uint32_t stream,
                                  std::string_view payload) {
  const std::uint64_t connection = connection_;
  const bool own = done_ && stream == stream_;
  if ((type == kSettings || type == kPing) && (flags & kAck) == 0) {
    out_ += Frame(type, kAck, 0, type == kPing ? payload : "");
  } else if (type == kData) {
    if (!payload.empty()) {
      out_ += Frame(kWindow, 0, 0, Octets(static_cast<std::uint32_t>(payload.size()), 4));
    }
    if (own) {
      message_ += payload;
    }
  } else if (type == kGoAway) {
    Hang();
    Fail("the server said goodbye");
    return false;
  }
  if (!out_.empty()) {
    Flush();
  }
  const bool over =
      type == kReset || ((type == kData || type == kHeaders) && (flags & kEndStream) != 0);
  if (own && over && connection == connection_) {
    v1::SyncReply wire;
    const bool whole =
        message_.size() >= 5 &&
        wire.ParseFromArray(message_.data() + 5, static_cast<int>(message_.size()) - 5);
    if (whole) {
      stream_ += 2;
      End(FromProto<SyncReply>(wire));
    } else {
      Fail("the call was refused");
    }
  }
  return connection == connection_;
}

void LightChannel::State::End(Result<SyncReply> reply) {
  limit_.Cancel();
  if (!reply) {
    Hang();
  }
  if (const Done done = std::exchange(done_, nullptr)) {
    done(sequence_, std::move(reply));
  }
}

LightChannel::LightChannel(AsioLoop& loop, const Endpoint& endpoint, const std::string& token)
    : state_(std::make_shared<State>(loop, endpoint, token)) {}

LightChannel::~LightChannel() {
  state_->Hang();
}

void LightChannel::Send(const NodeReport& report, Duration deadline, Done done) {
  state_->Send(report, deadline, std::move(done));
}

void LightChannel::Cancel() {
  state_->Cancel();
}

std::size_t LightChannel::Dialled() {
  return dialled;
}

}  // namespace ddprun

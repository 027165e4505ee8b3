#include "rendezvous/grpc_channel.h"

#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/text.h"
#include "rendezvous/grpc_limits.h"
#include "rendezvous/grpc_proof.h"
#include "rendezvous/listener/grpc_admission.h"
#include "rendezvous/listener/tls_memory.h"
#include "rendezvous/listener/token_proof.h"

namespace ddprun {
namespace {

// The least that gRPC takes is 100 ms, whatever is asked for; callers that cannot wait for it open
// another channel.
constexpr int kBackoffMs = 100;
// Despite its argument's name ("min reconnect backoff") this is how long one attempt may take, the
// handshake with a server that has many to shake included. Less where another address waits for its
// turn.
constexpr int kConnectTimeoutMs = 10'000;
constexpr int kConnectTimeoutOfManyMs = 5'000;

// "%5B::1%5D:29400". IPv4 as a mapped address, so that one target can list both kinds.
std::string TargetPart(const addrinfo& address, std::uint16_t port) {
  char text[NI_MAXHOST];
  if (::getnameinfo(address.ai_addr, address.ai_addrlen, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return "";
  }
  std::string host(text);
  if (const std::size_t scope = host.find('%'); scope != std::string::npos) {
    host.insert(scope + 1, "25");
  }
  const char* mapped = address.ai_family == AF_INET ? "::ffff:" : "";
  return "%5B" + (mapped + host) + "%5D:" + std::to_string(port);
}

// The end of gRPC's chain of causes, the system's or OpenSSL's own words: "...; last error:
// UNKNOWN: ipv4:10.0.0.1:29400: recvmsg:Connection reset by peer". A server's words here have no
// colon.
std::string LastCause(const std::string& message) {
  return std::string(Trimmed(std::string_view(message).substr(message.rfind(':') + 1)));
}

// gRPC has no code for a peer of another protocol, only these words; "": it is none. A failure that
// is called OK is what it makes of HTTP/1's 200.
std::string OtherProtocolOf(const grpc::Status& status) {
  const std::string& message = status.error_message();
  if (message.find("Trying to connect an http1.x server") != std::string::npos ||
      LastCause(message) == "OK") {
    return "it answers with HTTP/1, as a web server does";
  }
  return message.find("Failed parsing HTTP/2") != std::string::npos ? "its answer is not HTTP/2"
                                                                    : "";
}

// A caller that has a token and no authority.
Error ProofError(const std::string& message, const Endpoint& endpoint) {
  const std::string who = "the listener at " + ToString(endpoint);
  constexpr const char* kGive =
      ". If it is the rendezvous, set the same --token-file=FILE or DDPRUN_TOKEN on both sides";
  if (message.find(kUnproven) != std::string::npos) {
    return {
        ErrorKind::kInvalid,
        who +
            " does not prove that it has the same token as this side, so ddprun sent nothing to "
            "it. It has another token (another user's run?), or certificates (--tls-ca=FILE)" +
            kGive + " [token-differs]"};
  }
  if (message.find("alert protocol version") != std::string::npos) {  // As a server without one.
    return {ErrorKind::kInvalid,
            who +
                " does not speak TLS, so it cannot prove that it has the same token as this side, "
                "and ddprun sent nothing to it. It has no token (--insecure?)" +
                kGive + " [token-differs]"};
  }
  if (message.find("Tls handshake failed: ") != std::string::npos) {
    return {ErrorKind::kRefused, who +
                                     " is not a ddprun rendezvous with a token, and ddprun sent "
                                     "nothing to it. The TLS handshake failed: " +
                                     LastCause(message) + " [not-a-rendezvous]"};
  }
  return Unreachable(endpoint, LastCause(message));
}

// gRPC has no code for these either. A handshake that failed fails again; a connection that only
// ended may have met a server that went, or one that wants a certificate.
Error TlsError(const std::string& message, const Endpoint& endpoint, const Tls& tls) {
  const std::string where = "the rendezvous at " + ToString(endpoint);
  if (message.find("is not in peer certificate") != std::string::npos) {
    return {ErrorKind::kInvalid, "cannot trust " + where + ": its certificate does not name '" +
                                     endpoint.host + "' [certificate-name]"};
  }
  if (message.find("Ssl handshake failed: ") != std::string::npos) {
    return {ErrorKind::kInvalid,
            "cannot speak TLS with " + where + ": " + LastCause(message) +
                " (does it speak TLS? is its certificate signed by --tls-ca?)"};
  }
  return Unreachable(
      endpoint,
      LastCause(message) + (tls.serves() ? "" : " (over TLS; the server may require --tls-cert)"));
}

// The certificate that a caller shows: one for all its channels. It stands as the authority too,
// though it has signed nothing: without one gRPC reads all that the system trusts.
std::shared_ptr<grpc::experimental::CertificateProviderInterface> ProofFor(
    const std::string& token) {
  static std::mutex mutex;
  static std::string of;
  static std::shared_ptr<grpc::experimental::CertificateProviderInterface> proof;
  const std::lock_guard lock(mutex);
  if (proof == nullptr || of != token) {
    const Result<Tls> drawn = DrawCertificate(token);
    CHECK(drawn.has_value());
    proof = std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
        drawn->certificate,
        std::vector<grpc::experimental::IdentityKeyCertPair>{{drawn->key, drawn->certificate}});
    of = token;
  }
  return proof;
}

std::shared_ptr<grpc::ChannelCredentials> TokenCredentials(const std::string& token) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(ProofFor(token));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);  // In the handshake; then by the verifier.
  options.set_check_call_host(false);
  options.set_certificate_verifier(VerifierOf(token));
  return grpc::experimental::TlsCredentials(options);
}

grpc::ChannelArguments PingingFor(Duration silence) {
  grpc::ChannelArguments arguments;
  if (silence.count() > 0) {
    const int half = static_cast<int>(silence.count() / 2);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, half);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, half);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  return arguments;
}

// The threads that run callbacks come and go with the channels and servers that use them, and
// gRPC 1.51 aborts ("ref_counted.h: prior > 0") when the last user goes while a new one comes. One
// call on a channel that never connects (no credentials make a lame one) uses them for ever.
class Anchor {
 public:
  Anchor()
      : channel_(grpc::CreateCustomChannel("", nullptr, grpc::ChannelArguments())),
        stub_(channel_),
        request_(&nothing_, 1) {
    stub_.UnaryCall(&context_, "/anchor/Anchor", grpc::StubOptions(), &request_, &reply_,
                    [](grpc::Status) {});
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::Slice nothing_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

}  // namespace

void PrepareGrpc() {
  // Kept where a leak checker finds it.
  [[gnu::used]] static const auto* const kAnchor = [] {
    // Debian's Abseil looks for deadlocks at every lock: a third of the time of a server with many
    // nodes.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    ReduceTlsMemory();
    if (std::getenv("GRPC_VERBOSITY") == nullptr) {
      gpr_set_log_function([](gpr_log_func_args*) {});
      google::protobuf::SetLogHandler(nullptr);  // Any peer chooses how often it logs.
    }
    return new Anchor;
  }();
}

Result<std::string> GrpcTarget(const Endpoint& endpoint, Lookup lookup) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = lookup == Lookup::kAddressOnly ? AI_NUMERICHOST : 0;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found);
  if (code == EAI_NONAME && lookup == Lookup::kAddressOnly) {
    return std::string();
  }
  if (code != 0) {
    return Unreachable(endpoint,
                       "looking up '" + endpoint.host + "' failed: " + ::gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  std::string target;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    target += (target.empty() ? "ipv6:" : ",") + TargetPart(*address, endpoint.port);
  }
  return target;
}

void LookUpTarget(Loop& loop, const Endpoint& endpoint,
                  std::function<void(const Result<std::string>& target)> done) {
  constexpr Duration kLimit{10'000};
  const auto found = std::make_shared<Result<std::string>>(Unreachable(
      endpoint, "looking up '" + endpoint.host + "' takes longer than " + FormatDuration(kLimit)));
  loop.RunBounded(
      kLimit, [found, endpoint] { *found = GrpcTarget(endpoint, Lookup::kMayBlock); },
      [found, late = *found, done = std::move(done)](bool in_time) {
        done(in_time ? *found : late);
      });
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target, const std::string& host,
                                           const Access& access, Duration silence) {
  PrepareGrpc();
  grpc::ChannelArguments arguments = PingingFor(silence);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // The next report is the retry.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kBackoffMs);
  const bool only_one = target.find(',') == std::string::npos;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   only_one ? kConnectTimeoutMs : kConnectTimeoutOfManyMs);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CENSUS, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetInt(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  const Tls& tls = access.tls;
  if (tls.calls()) {
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, host);  // The name that the certificate must
                                                            // have.
    return grpc::CreateCustomChannel(
        target, grpc::SslCredentials({tls.authority, tls.key, tls.certificate}), arguments);
  }
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "rendezvous");
  return grpc::CreateCustomChannel(
      target,
      access.token.empty() ? grpc::InsecureChannelCredentials() : TokenCredentials(access.token),
      arguments);
}

std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd socket, Duration silence) {
  PrepareGrpc();
  grpc::ChannelArguments arguments = PingingFor(silence);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  return grpc::CreateCustomInsecureChannelFromFd("rendezvous", socket.Release(), arguments);
}

Error Unreachable(const Endpoint& endpoint, const std::string& why) {
  return {ErrorKind::kUnavailable, "cannot reach the rendezvous at " + ToString(endpoint) + ": " +
                                       why + " [rendezvous-unreachable]"};
}

grpc::Status StatusOf(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kInvalid:
      return {grpc::StatusCode::INVALID_ARGUMENT, error.message};
    case ErrorKind::kUnavailable:
      return {grpc::StatusCode::UNAVAILABLE, error.message};
    case ErrorKind::kNotFound:
      return {grpc::StatusCode::NOT_FOUND, error.message};
    case ErrorKind::kRefused:
    case ErrorKind::kSystem:
      break;
  }
  return {grpc::StatusCode::FAILED_PRECONDITION, error.message};
}

Error ErrorOf(const grpc::Status& status, const Endpoint& endpoint, Duration waited,
              const Access& access) {
  const std::string where = ToString(endpoint);
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return {ErrorKind::kInvalid,
              "the rendezvous at " + where + " rejected this request: " + status.error_message()};
    case grpc::StatusCode::NOT_FOUND:
      return {ErrorKind::kNotFound, "the rendezvous at " + where + ": " + status.error_message()};
    case grpc::StatusCode::FAILED_PRECONDITION:
      return {ErrorKind::kRefused,
              "the rendezvous at " + where + " refused: " + status.error_message()};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {ErrorKind::kRefused,
              "the listener at " + where +
                  " is not a ddprun rendezvous, or is one of another release [not-a-rendezvous]"};
    case grpc::StatusCode::UNAUTHENTICATED:
      if (status.error_message() == kTlsWanted) {
        return {ErrorKind::kInvalid,
                "the rendezvous at " + where + " refused this call: " + status.error_message() +
                    ". Set --tls-ca=FILE to the certificate that signed the server's"};
      }
      return {ErrorKind::kInvalid, "the rendezvous at " + where +
                                       " refused this call: " + status.error_message() +
                                       ". Set --token-file=FILE or DDPRUN_TOKEN [token-missing]"};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Unreachable(endpoint, "no answer within " + FormatDuration(waited));
    default:
      if (const std::string words = OtherProtocolOf(status); !words.empty()) {
        return {ErrorKind::kRefused,
                "the listener at " + where + " is not a ddprun rendezvous: " + words +
                    ". Check the port; choose another if it is in use [not-a-rendezvous]"};
      }
      if (access.tls.calls()) {
        return TlsError(status.error_message(), endpoint, access.tls);
      }
      if (!access.token.empty()) {
        return ProofError(status.error_message(), endpoint);
      }
      return Unreachable(endpoint, LastCause(status.error_message()));
  }
}

}  // namespace ddprun

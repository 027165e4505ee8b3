#include "launcher/kubernetes/https_post.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "common/files.h"
#include "common/json.h"
#include "common/log.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr std::uint16_t kHttpsPort = 443;
constexpr std::size_t kMostUrl = 4'096;
constexpr std::size_t kMostWords = 200;  // Of an answer, in a message.

bool IsVisible(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

// The reason that Kubernetes' servers give in a Status, else the beginning of what it is.
std::string WordsOf(const std::string& body) {
  const auto json = ParseJson(body);
  const bool told = json.is_object() && json.contains("message") && json["message"].is_string();
  std::string words = told ? json["message"].get<std::string>() : body;
  words = Printable(words.substr(0, kMostWords));
  std::ranges::replace(words, '\n', ' ');
  return words.empty() ? "" : ": " + words;
}

// One connection for one POST. Each step begins something and lets it run until it is done, or the
// deadline is over; then the object ends, and all that was begun with it.
class Exchange {
 public:
  Exchange(const HttpsPost& post, HttpsPlace place, Duration limit)
      : post_(post), place_(std::move(place)), deadline_(Clock::now() + limit) {}

  Result<void> Run() {
    ASSIGN_OR_RETURN(const std::string token, ReadToken());
    RETURN_IF_ERROR(Trust());
    RETURN_IF_ERROR(Connect());
    RETURN_IF_ERROR(Ask(token));
    return Answer();
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <class Begin>
  error_code Await(Begin begin) {
    std::optional<error_code> ended;
    begin([&ended](error_code error, const auto&...) { ended = error; });
    io_.restart();
    while (!ended && Clock::now() < deadline_ && io_.run_one_until(deadline_) > 0) {
    }
    return ended.value_or(asio::error::timed_out);
  }

  Result<std::string> ReadToken() const {
    if (post_.token_file.empty()) {
      return Error{ErrorKind::kInvalid, "no file with a token is named"};
    }
    ASSIGN_OR_RETURN(std::string token, ReadFile(post_.token_file, kMostToken));
    token.erase(0, token.find_first_not_of(" \t\r\n"));
    token.erase(token.find_last_not_of(" \t\r\n") + 1);
    if (token.empty() || !IsVisible(token)) {
      return Invalid("the file has no token in it", post_.token_file);
    }
    return token;
  }

  Result<void> Trust() {
    error_code error;
    if (post_.authority.empty()) {
      context_.set_default_verify_paths(error);
    } else {
      ASSIGN_OR_RETURN(const std::string pem, ReadFile(post_.authority, kMostToken));
      context_.add_certificate_authority(asio::buffer(pem), error);
    }
    if (error) {
      return Invalid("it must have certificates in PEM form (OpenSSL says " + error.message() + ")",
                     post_.authority);
    }
    stream_.emplace(io_, context_);
    stream_->set_verify_mode(asio::ssl::verify_peer);
    stream_->set_verify_callback(asio::ssl::host_name_verification(place_.server.host));
    return {};
  }

  Result<void> Connect() {
    const std::string& host = place_.server.host;
    error_code error;
    const auto found = tcp::resolver(io_).resolve(host, std::to_string(place_.server.port), error);
    if (error) {
      return Failed("find the host of", error);
    }
    error = Await(
        [&](auto done) { asio::async_connect(stream_->lowest_layer(), found, std::move(done)); });
    if (error) {
      return Failed("connect to", error);
    }
    error_code no_address;
    asio::ip::make_address(host, no_address);
    if (no_address) {  // What listens there may serve several names.
      ::SSL_ctrl(stream_->native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 const_cast<char*>(host.c_str()));
    }
    error = Await([&](auto done) {
      stream_->async_handshake(asio::ssl::stream_base::client, std::move(done));
    });
    return error ? Failed("speak TLS with", error) : Result<void>();
  }

  Result<void> Ask(const std::string& token) {
    http::request<http::string_body> request(http::verb::post, place_.path, 11);
    request.set(http::field::host, ToString(place_.server));
    request.set(http::field::user_agent, "ddprun");
    request.set(http::field::authorization, "Bearer " + token);
    request.set(http::field::content_type, "application/json");
    request.set(http::field::accept, "application/json");
    request.keep_alive(false);
    request.body() = post_.body;
    request.prepare_payload();
    const error_code error =
        Await([&](auto done) { http::async_write(*stream_, request, std::move(done)); });
    return error ? Failed("write to", error) : Result<void>();
  }

  Result<void> Answer() {
    boost::beast::flat_buffer buffer(2 * kMostAnswer);
    http::response_parser<http::string_body> parser;
    parser.header_limit(kMostAnswer);
    parser.body_limit(kMostAnswer);
    error_code error = Await(
        [&](auto done) { http::async_read_header(*stream_, buffer, parser, std::move(done)); });
    if (error) {
      return Failed("hear the answer of", error);
    }
    const unsigned status = parser.get().result_int();
    if (status >= 200 && status < 300) {
      return {};  // What else it says nobody reads.
    }
    error = Await([&](auto done) { http::async_read(*stream_, buffer, parser, std::move(done)); });
    return Error{ErrorKind::kRefused, ShownUrl(post_.url) + " answered " + std::to_string(status) +
                                          WordsOf(parser.get().body())};
  }

  Error Failed(const char* tried, const error_code& error) const {
    return {ErrorKind::kUnavailable,
            std::string("cannot ") + tried + " " + ShownUrl(post_.url) + ": " +
                (error == asio::error::timed_out ? "no answer in time" : error.message())};
  }

  const HttpsPost& post_;
  const HttpsPlace place_;
  const Clock::time_point deadline_;
  asio::io_context io_{1};
  asio::ssl::context context_{asio::ssl::context::tls_client};
  std::optional<asio::ssl::stream<tcp::socket>> stream_;
};

}  // namespace

Result<HttpsPlace> ParseHttpsUrl(const std::string& url) {
  constexpr std::string_view kScheme = "https://";
  if (!url.starts_with(kScheme) || !IsVisible(url) || url.size() > kMostUrl) {
    return Invalid("it must be https://<host>[:<port>]/<path>", ShownUrl(url));
  }
  const std::size_t path = std::min(url.find_first_of("/?#", kScheme.size()), url.size());
  const std::string host = url.substr(kScheme.size(), path - kScheme.size());
  const Result<Endpoint> server = ParseEndpoint(host, kHttpsPort);
  if (!server || server->host.empty() || server->port == 0 || host.find('@') != std::string::npos) {
    return Invalid("it must be https://<host>[:<port>]/<path>", ShownUrl(url));
  }
  const std::string rest = url.substr(path, url.find('#', path) - path);
  return HttpsPlace{*server, rest.starts_with("/") ? rest : "/" + rest};
}

std::string ShownUrl(const std::string& url) {
  constexpr std::size_t kMostShown = 200;
  return url.size() <= kMostShown ? url : url.substr(0, kMostShown) + "...";
}

Result<void> PostOverTls(const HttpsPost& post, Duration limit) {
  ASSIGN_OR_RETURN(HttpsPlace place, ParseHttpsUrl(post.url));
  return Exchange(post, std::move(place), limit).Run();
}

}  // namespace ddprun

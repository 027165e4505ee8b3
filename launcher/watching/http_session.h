// One connection of HTTP: requests one after the other, or a stream of events until its reader
// goes.
//
// On its listener's thread. Never reads more than it bounds, never waits for a reader for longer
// than kPatience: a client that does not read its stream is dropped. Internal to http_listener.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/time.h"
#include "launcher/watching/http_message.h"

namespace ddprun {

class HttpSession;

// The questions of sessions to their listener.
class HttpHost {
 public:
  virtual ~HttpHost() = default;
  virtual void Want(const std::shared_ptr<HttpSession>& session) = 0;
  virtual void Act(const std::shared_ptr<HttpSession>& session, const HttpAnswer& answer) = 0;
  virtual bool MayStream(const HttpSession& session) = 0;
  virtual void Gone(const HttpSession& session) = 0;
};

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostHead = 8 * 1024;
  static constexpr std::size_t kMostBody = 1'024;
  static constexpr Duration kPatience{5'000};  // For a request, and for its reader.

  // `begun`: the bytes that the server's own port has read already; else empty.
  HttpSession(boost::asio::ip::tcp::socket socket, const std::string& begun, HttpHost& host);

  void Read();
  void Reply(HttpAnswers& answers);
  void Send(HttpAnswer answer);
  // Sends the new part of a stream, unless its reader still reads.
  void Push(HttpAnswers& answers);
  void Close();

  bool idle() const { return idle_; }
  bool streams() const { return streams_; }
  Clock::time_point idle_since() const { return idle_since_; }

 private:
  void OnRead(boost::beast::error_code error);
  void OnSent(boost::beast::error_code error);
  void BeginStream(HttpAnswers& answers, const std::string& run);
  void Write(std::string text);

  boost::beast::tcp_stream stream_;
  HttpHost& host_;
  const bool adopted_;
  boost::beast::flat_buffer buffer_{kMostHead + kMostBody};
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> response_;
  std::optional<boost::beast::http::response_serializer<boost::beast::http::string_body>>
      serializer_;
  HttpRequest request_;
  Clock::time_point idle_since_;
  bool idle_ = true;
  bool streams_ = false;
  bool writing_ = false;
  std::string being_written_;
  char unread_ = 0;
  StreamPlace place_;
};

}  // namespace ddprun

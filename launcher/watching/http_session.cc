#include "launcher/watching/http_session.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <string_view>
#include <utility>

#include "common/endpoint.h"
#include "rendezvous/listener/plain_address.h"

namespace ddprun {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

std::string TextOf(beast::string_view text) {
  return {text.data(), text.size()};
}

// Of "/path?run=a%20b"; "" where it has none, or one that is no text in that form.
std::string RunOf(std::string_view target) {
  constexpr std::string_view kRun = "?run=";
  const std::size_t begin = target.find('?');
  if (begin == target.npos || !target.substr(begin).starts_with(kRun)) {
    return "";
  }
  std::string_view rest = target.substr(begin + kRun.size());
  rest = rest.substr(0, rest.find('&'));
  std::string run;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] != '%') {
      run += rest[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = rest.substr(i + 1, 2);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || read.ptr != digits.data() + digits.size()) {
      return "";
    }
    run += static_cast<char>(byte);
    i += 2;
  }
  return run;
}

HttpRequest RequestOf(const http::request<http::string_body>& message) {
  const std::string target = TextOf(message.target());
  HttpRequest request{.post = message.method() == http::verb::post,
                      .head = message.method() == http::verb::head,
                      .path = target.substr(0, target.find('?')),
                      .run = RunOf(target),
                      .host = TextOf(message[http::field::host]),
                      .origin = TextOf(message[http::field::origin]),
                      .cookie = TextOf(message[http::field::cookie]),
                      .body = message.body()};
  request.by_script = message.find("X-Ddprun") != message.end();
  return request;
}

}  // namespace

HttpSession::HttpSession(boost::asio::ip::tcp::socket socket, const std::string& begun,
                         HttpHost& host)
    : stream_(std::move(socket)), host_(host), adopted_(!begun.empty()) {
  const std::size_t size = std::min(begun.size(), kMostHead);
  boost::asio::buffer_copy(buffer_.prepare(size), boost::asio::buffer(begun, size));
  buffer_.commit(size);
}

void HttpSession::Read() {
  idle_since_ = Clock::now();
  idle_ = true;
  parser_.emplace();
  parser_->header_limit(kMostHead);
  parser_->body_limit(kMostBody);
  stream_.expires_after(kPatience);
  http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](beast::error_code error, std::size_t) { self->OnRead(error); });
}

void HttpSession::OnRead(beast::error_code error) {
  idle_ = false;
  if (error) {
    host_.Gone(*this);
    return;
  }
  const http::verb method = parser_->get().method();
  if (method != http::verb::get && method != http::verb::head && method != http::verb::post) {
    Send({405, "only GET and POST\n"});
    return;
  }
  request_ = RequestOf(parser_->get());
  request_.at_port = adopted_;
  beast::error_code ignored;
  if (const auto end = stream_.socket().local_endpoint(ignored); !ignored) {
    request_.end = ToString(Endpoint{Plain(end.address()).to_string(), end.port()});
  }
  host_.Want(shared_from_this());
}

void HttpSession::Reply(HttpAnswers& answers) {
  HttpAnswer answer = answers.Reply(request_);
  if (answer.act) {
    host_.Act(shared_from_this(), answer);
  } else if (!answer.stream) {
    Send(std::move(answer));
  } else if (host_.MayStream(*this)) {
    BeginStream(answers, answer.stream_of);
  } else {
    Send({kHttpUnavailable, "too many open pages\n"});
  }
}

void HttpSession::Send(HttpAnswer answer) {
  const auto& request = parser_->get();
  response_.emplace(static_cast<http::status>(answer.status), request.version());
  response_->set(http::field::content_type, answer.type);
  response_->set(http::field::cache_control, "no-store");
  response_->set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : answer.headers) {
    response_->set(name, value);
  }
  response_->keep_alive(request.keep_alive());
  const std::size_t size = answer.body.size();
  if (request.method() != http::verb::head) {
    response_->body() = std::move(answer.body);
  }
  response_->content_length(size);
  stream_.expires_after(kPatience);
  // A HEAD's length is the GET's, without the body that it names.
  serializer_.emplace(*response_);
  const auto sent = [self = shared_from_this()](beast::error_code error, std::size_t) {
    self->OnSent(error);
  };
  if (request.method() == http::verb::head) {
    http::async_write_header(stream_, *serializer_, sent);
  } else {
    http::async_write(stream_, *serializer_, sent);
  }
}

void HttpSession::OnSent(beast::error_code error) {
  if (error || !response_->keep_alive()) {
    beast::error_code ignored;
    stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    host_.Gone(*this);
    return;
  }
  Read();
}

void HttpSession::BeginStream(HttpAnswers& answers, const std::string& run) {
  streams_ = true;
  place_.run = run;
  stream_.expires_never();  // Of this read: its end is the reader's.
  stream_.async_read_some(
      boost::asio::buffer(&unread_, 1),
      [self = shared_from_this()](beast::error_code, std::size_t) { self->Close(); });
  // Ends with the connection, so it needs no length.
  Write(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 1000\n\n" +
      answers.News(place_));
}

void HttpSession::Push(HttpAnswers& answers) {
  if (writing_) {
    return;
  }
  std::string news = answers.News(place_);
  if (!news.empty()) {
    Write(std::move(news));
  }
}

void HttpSession::Write(std::string text) {
  writing_ = true;
  being_written_ = std::move(text);
  stream_.expires_after(kPatience);
  boost::asio::async_write(stream_, boost::asio::buffer(being_written_),
                           [self = shared_from_this()](beast::error_code error, std::size_t) {
                             self->writing_ = false;
                             if (error) {
                               self->Close();
                             }
                           });
}

void HttpSession::Close() {
  beast::error_code ignored;
  stream_.socket().close(ignored);
  host_.Gone(*this);
}

}  // namespace ddprun

#include "launcher/watching/http_listener.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <future>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "common/loop.h"

namespace ddprun {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr Duration kAfterNoDescriptor{200};

class Session;

// What sessions ask of their listener.
class Answers {
 public:
  virtual ~Answers() = default;
  virtual void Want(const std::shared_ptr<Session>& session) = 0;
  virtual void Gone(const Session& session) = 0;
};

// One connection: requests one after the other.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Answers& answers) : stream_(std::move(socket)), answers_(answers) {}

  void Read() {
    idle_since_ = Clock::now();
    idle_ = true;
    parser_.emplace();
    parser_->header_limit(HttpListener::kMostHead);
    parser_->body_limit(0);
    stream_.expires_after(HttpListener::kPatience);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, std::size_t) { self->OnRead(error); });
  }

  void Reply(const HttpListener::Answer& answer) {
    const std::string_view target = {parser_->get().target().data(),
                                     parser_->get().target().size()};
    Send(answer(target.substr(0, target.find('?'))));
  }

  void Close() {
    beast::error_code ignored;
    stream_.socket().close(ignored);
  }

  bool idle() const { return idle_; }
  Clock::time_point idle_since() const { return idle_since_; }

 private:
  void OnRead(beast::error_code error) {
    idle_ = false;
    if (error) {
      answers_.Gone(*this);
      return;
    }
    const http::verb method = parser_->get().method();
    if (method != http::verb::get && method != http::verb::head) {
      Send({405, "only GET\n"});
      return;
    }
    answers_.Want(shared_from_this());
  }

  void Send(HttpAnswer answer) {
    const auto& request = parser_->get();
    response_.emplace(static_cast<http::status>(answer.status), request.version());
    response_->set(http::field::content_type, answer.type);
    response_->set(http::field::cache_control, "no-store");
    response_->set("X-Content-Type-Options", "nosniff");
    response_->keep_alive(request.keep_alive());
    const std::size_t size = answer.body.size();
    if (request.method() != http::verb::head) {
      response_->body() = std::move(answer.body);
    }
    response_->content_length(size);
    stream_.expires_after(HttpListener::kPatience);
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

  void OnSent(beast::error_code error) {
    if (error || !response_->keep_alive()) {
      beast::error_code ignored;
      stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      answers_.Gone(*this);
      return;
    }
    Read();
  }

  beast::tcp_stream stream_;
  Answers& answers_;
  beast::flat_buffer buffer_{HttpListener::kMostHead};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  Clock::time_point idle_since_;
  bool idle_ = true;
};

}  // namespace

class HttpListener::State : public std::enable_shared_from_this<State>, public Answers {
 public:
  State(Ask ask, Answer late) : ask_(std::move(ask)), late_(std::move(late)) {}

  Result<void> Listen(UniqueFd socket) {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    boost::system::error_code error;
    acceptor_.assign(bound.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), error);
    if (error) {
      return Error{ErrorKind::kSystem,
                   "cannot watch the socket of --http-listen: " + error.message()};
    }
    socket.Release();
    Accept();
    // Shared: who destroys the listener waits for `ended_`.
    if (!StartThread([self = shared_from_this()] {
          self->io_.run();
          self->ended_.set_value();
        })) {
      return Error{ErrorKind::kSystem, "cannot start a thread for --http-listen"};
    }
    return {};
  }

  void Stop() {
    std::future<void> ended = ended_.get_future();
    io_.stop();
    ended.wait();
    sessions_.clear();
  }

 private:
  void Accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error == boost::asio::error::operation_aborted) {
        return;
      }
      if (error) {  // Of the connection alone, or no descriptor is free.
        again_.expires_after(kAfterNoDescriptor);
        again_.async_wait([this](boost::system::error_code stopped) {
          if (!stopped) {
            Accept();
          }
        });
        return;
      }
      if (sessions_.size() >= kMostConnections) {
        MakeRoom();
      }
      sessions_.push_back(std::make_shared<Session>(std::move(socket), *this));
      sessions_.back()->Read();
      Accept();
    });
  }

  void MakeRoom() {
    const auto idlest =
        std::min_element(sessions_.begin(), sessions_.end(), [](const auto& a, const auto& b) {
          return a->idle() != b->idle() ? a->idle() : a->idle_since() < b->idle_since();
        });
    (*idlest)->Close();
    sessions_.erase(idlest);
  }

  void Want(const std::shared_ptr<Session>& session) override {
    const auto now = Clock::now();
    if (answer_ && now - answered_ < kFresh) {
      session->Reply(*answer_);
      return;
    }
    waiting_.push_back({session, now + kPatienceWithLoop});
    if (!asked_) {
      asked_ = true;
      ask_([weak = weak_from_this()](Answer answer) {
        const auto state = weak.lock();  // What is posted holds none: it may never run.
        if (state) {
          boost::asio::post(state->io_, [weak, answer = std::move(answer)] {
            if (const auto still = weak.lock()) {
              still->OnAnswer(answer);
            }
          });
        }
      });
    }
    ArmLate();
  }

  void OnAnswer(Answer answer) {
    asked_ = false;
    answer_ = std::move(answer);
    answered_ = Clock::now();
    for (const Waiting& waiting : std::exchange(waiting_, {})) {
      waiting.session->Reply(*answer_);
    }
  }

  // Whoever waits for the loop for too long hears that it stands still.
  void ArmLate() {
    if (waiting_.empty()) {
      return;
    }
    lateness_.expires_at(waiting_.front().until);
    lateness_.async_wait([this](boost::system::error_code stopped) {
      if (stopped) {
        return;
      }
      while (!waiting_.empty() && waiting_.front().until <= Clock::now()) {
        const std::shared_ptr<Session> session = std::move(waiting_.front().session);
        waiting_.pop_front();
        session->Reply(late_);
      }
      ArmLate();
    });
  }

  void Gone(const Session& session) override {
    sessions_.remove_if([&](const auto& other) { return other.get() == &session; });
  }

  struct Waiting {
    std::shared_ptr<Session> session;
    Clock::time_point until;
  };

  const Ask ask_;
  const Answer late_;
  boost::asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer again_{io_};
  boost::asio::steady_timer lateness_{io_};
  std::list<std::shared_ptr<Session>> sessions_;
  std::list<Waiting> waiting_;  // Each a session: kMostConnections, and those that made room.
  bool asked_ = false;
  std::optional<Answer> answer_;
  Clock::time_point answered_;
  std::promise<void> ended_;
};

Result<std::unique_ptr<HttpListener>> HttpListener::Open(ListenSocket socket, Ask ask,
                                                         Answer late) {
  auto state = std::make_shared<State>(std::move(ask), std::move(late));
  Endpoint endpoint = socket.endpoint;
  RETURN_IF_ERROR(state->Listen(std::move(socket.fd)));
  return std::unique_ptr<HttpListener>(new HttpListener(std::move(endpoint), std::move(state)));
}

HttpListener::~HttpListener() {
  state_->Stop();
}

}  // namespace ddprun

#include "launcher/watching/http_listener.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <future>
#include <list>
#include <utility>

#include "common/loop.h"
#include "launcher/watching/http_session.h"

namespace ddprun {
namespace {

using boost::asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr Duration kAfterNoDescriptor{200};

tcp FamilyOf(int socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
  return bound.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
}

}  // namespace

class HttpListener::State : public std::enable_shared_from_this<State>, public HttpHost {
 public:
  State(Ask ask, Answer late) : ask_(std::move(ask)), late_(std::move(late)) {}

  Result<void> Listen(UniqueFd socket) {
    boost::system::error_code error;
    acceptor_.assign(FamilyOf(socket.get()), socket.get(), error);
    if (error) {
      return Error{ErrorKind::kSystem,
                   "cannot watch the socket of --http-listen: " + error.message()};
    }
    socket.Release();
    boost::asio::post(io_, [this] { Accept(); });
    return HaveThread() ? Result<void>()
                        : Error{ErrorKind::kSystem, "cannot start a thread for --http-listen"};
  }

  void Adopt(UniqueFd socket, std::string begun) {
    if (!HaveThread()) {
      return;
    }
    const auto shared = std::make_shared<UniqueFd>(std::move(socket));
    boost::asio::post(io_, [this, shared, begun = std::move(begun)] {
      tcp::socket adopted(io_);
      boost::system::error_code error;
      adopted.assign(FamilyOf(shared->get()), shared->get(), error);
      if (!error) {
        shared->Release();
        Begin(std::move(adopted), begun);
      }
    });
  }

  void Stop() {
    if (!started_) {
      return;
    }
    std::future<void> ended = ended_.get_future();
    io_.stop();
    ended.wait();
    sessions_.clear();
  }

 private:
  bool HaveThread() {
    // Shared: the listener's destructor waits for `ended_`.
    started_ = started_ || StartThread([self = shared_from_this()] {
                 self->io_.run();
                 self->ended_.set_value();
               });
    return started_;
  }

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
      Begin(std::move(socket), "");
      Accept();
    });
  }

  void Begin(tcp::socket socket, const std::string& begun) {
    if (sessions_.size() >= kMostConnections) {
      MakeRoom();
    }
    sessions_.push_back(std::make_shared<HttpSession>(std::move(socket), begun, *this));
    sessions_.back()->Read();
  }

  // A connection without a question is closed first, and one that has shown its key and watches
  // last: it is authenticated.
  void MakeRoom() {
    const auto rank = [](const auto& session) {
      return session->streams() ? 2 : session->idle() ? 0 : 1;
    };
    const auto idlest =
        std::min_element(sessions_.begin(), sessions_.end(), [&](const auto& a, const auto& b) {
          return rank(a) != rank(b) ? rank(a) < rank(b) : a->idle_since() < b->idle_since();
        });
    const std::shared_ptr<HttpSession> session = *idlest;
    session->Close();
  }

  void Want(const std::shared_ptr<HttpSession>& session) override {
    const auto now = Clock::now();
    if (answer_ && now - answered_ < kFresh) {
      session->Reply(*answer_);
      return;
    }
    waiting_.push_back(session);
    AskLoop();
    if (waiting_.size() == 1) {
      ArmLate();
    }
  }

  void AskLoop() {
    if (std::exchange(asked_, true)) {
      return;
    }
    ask_([weak = weak_from_this()](Answer answer) {
      const auto state = weak.lock();  // A callback that is posted holds none: it may never run.
      if (state) {
        boost::asio::post(state->io_, [weak, answer = std::move(answer)] {
          if (const auto still = weak.lock()) {
            still->OnAnswer(answer);
          }
        });
      }
    });
  }

  void OnAnswer(const Answer& answer) {
    asked_ = false;
    answer_ = answer;
    answered_ = Clock::now();
    lateness_.cancel();
    for (const auto& session : std::exchange(waiting_, {})) {
      session->Reply(*answer_);
    }
    for (const auto& session : std::list(sessions_)) {
      if (session->streams()) {
        session->Push(*answer_);
      }
    }
  }

  bool MayStream(const HttpSession& asking) override {
    const auto streams =
        std::ranges::count_if(sessions_, [&](const auto& session) { return session->streams(); });
    const bool may = streams < static_cast<std::ptrdiff_t>(kMostStreams) && !asking.streams();
    if (may && streams == 0) {
      ArmStreams();
    }
    return may;
  }

  void ArmStreams() {
    stream_timer_.expires_after(kStreamPeriod);
    stream_timer_.async_wait([this](boost::system::error_code stopped) {
      const bool any = std::ranges::any_of(sessions_, [](const auto& s) { return s->streams(); });
      if (!stopped && any) {
        AskLoop();
        ArmStreams();
      }
    });
  }

  void Act(const std::shared_ptr<HttpSession>& session, const HttpAnswer& answer) override {
    // Calls once, at the answer or at the end of patience.
    const auto timer = std::make_shared<boost::asio::steady_timer>(io_, kPatienceWithLoop);
    const std::weak_ptr<HttpSession> asking = session;
    timer->async_wait([this, session, timer](boost::system::error_code stopped) {
      if (!stopped) {
        session->Reply(*late_);
      }
    });
    answer.act([weak = weak_from_this(), asking, timer](HttpAnswer done) {
      const auto state = weak.lock();
      if (state) {
        boost::asio::post(state->io_, [asking, timer, done = std::move(done)] {
          const auto still = asking.lock();
          if (timer->cancel() > 0 && still) {
            still->Send(done);
          }
        });
      }
    });
  }

  // Requests that wait for the loop for too long get the answer that the loop stands still.
  void ArmLate() {
    lateness_.expires_after(kPatienceWithLoop);
    lateness_.async_wait([this](boost::system::error_code stopped) {
      if (!stopped) {
        for (const auto& session : std::exchange(waiting_, {})) {
          session->Reply(*late_);
        }
      }
    });
  }

  void Gone(const HttpSession& session) override {
    sessions_.remove_if([&](const auto& other) { return other.get() == &session; });
  }

  const Ask ask_;
  const Answer late_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer again_{io_};
  boost::asio::steady_timer lateness_{io_};
  boost::asio::steady_timer stream_timer_{io_};
  std::list<std::shared_ptr<HttpSession>> sessions_;
  // kMostConnections, and those that made room.
  std::list<std::shared_ptr<HttpSession>> waiting_;
  bool started_ = false;  // Of the owner's thread.
  bool asked_ = false;
  Answer answer_;  // None yet.
  Clock::time_point answered_;
  std::promise<void> ended_;
};

HttpListener::HttpListener(Ask ask, Answer late)
    : state_(std::make_shared<State>(std::move(ask), std::move(late))) {}

Result<void> HttpListener::Listen(ListenSocket socket) {
  endpoint_ = socket.endpoint;
  return state_->Listen(std::move(socket.fd));
}

void HttpListener::Adopt(UniqueFd socket, std::string begun) {
  state_->Adopt(std::move(socket), std::move(begun));
}

HttpListener::~HttpListener() {
  state_->Stop();
}

}  // namespace ddprun

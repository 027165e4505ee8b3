#include "agent/watch/worker_answer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "common/files.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// A socket of this process's, as a worker's package makes it.
struct Answers : testing::Test {
  std::string path = "/tmp/ddprun-ask-" + std::to_string(::getpid());
  UniqueFd listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string heard;

  Answers() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_EQ(::listen(listener.get(), 4), 0);
  }
  ~Answers() override { ::unlink(path.c_str()); }

  // Answers one question with `text`.
  std::thread Serve(std::string text) const {
    return std::thread([fd = listener.get(), text = std::move(text)] {
      const UniqueFd caller(::accept(fd, nullptr, nullptr));
      char question[32];
      EXPECT_EQ(::recv(caller.get(), question, sizeof question, 0), 6);
      EXPECT_EQ(std::string_view(question, 6), "stacks");
      for (std::size_t sent = 0; sent < text.size();) {
        const ssize_t more =
            ::send(caller.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (more <= 0) {
          return;
        }
        sent += static_cast<std::size_t>(more);
      }
    });
  }
  bool Ask(int pid, std::size_t most, Clock::duration limit = 10s) {
    return AskWorker(path, pid, "stacks", most, Clock::now() + limit,
                     [this](std::string_view part) { heard += part; });
  }
};

TEST_F(Answers, AWholeAnswerIsHeard) {
  std::thread worker = Serve(std::string(100'000, 'x'));
  EXPECT_TRUE(Ask(::getpid(), 1 << 20));
  worker.join();
  EXPECT_EQ(heard.size(), 100'000u);
}

TEST_F(Answers, AnEndlessOneIsCut) {
  std::thread worker = Serve(std::string(3 << 20, 'x'));
  EXPECT_FALSE(Ask(::getpid(), 1 << 20));
  worker.join();
  EXPECT_EQ(heard.size(), std::size_t{1} << 20);
}

// A child has the environment of its parent, which would answer for itself.
TEST_F(Answers, AnotherProcessesSocketIsNotAsked) {
  std::thread worker([fd = listener.get()] {
    const UniqueFd caller(::accept(fd, nullptr, nullptr));
    char question[32];
    EXPECT_EQ(::recv(caller.get(), question, sizeof question, 0), 0) << "nothing is asked";
  });
  EXPECT_FALSE(Ask(::getpid() + 1, 1 << 20));
  worker.join();
  EXPECT_EQ(heard, "");
}

TEST_F(Answers, ASilentWorkerIsNotWaitedFor) {
  EXPECT_FALSE(Ask(::getpid(), 1 << 20, 20ms));
}

TEST_F(Answers, NoProcessIsThere) {
  ::unlink(path.c_str());
  EXPECT_FALSE(Ask(::getpid(), 1 << 20));
  path.assign(200, 'x');
  EXPECT_FALSE(Ask(::getpid(), 1 << 20));
  path.clear();
  EXPECT_FALSE(Ask(::getpid(), 1 << 20));
}

}  // namespace
}  // namespace ddprun

#include "agent/watch/ras_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string_view>
#include <thread>

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr const char* kEmpty = R"({"nccl_version": "2.29.7", "communicators": []})";

UniqueFd ListenAt(const std::string& address) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  place.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  const int shared = 1;
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // As NCCL does.
  EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &shared, sizeof shared), 0);
  EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &shared, sizeof shared), 0);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  EXPECT_EQ(::listen(fd.get(), 64), 0);
  return fd;
}

// One end of a connection that speaks as NCCL does, or not.
struct Caller {
  int fd;

  std::string Line() const {
    std::string line;
    for (char c = 0; ::recv(fd, &c, 1, 0) == 1 && c != '\n';) {
      line += c;
    }
    return line;
  }
  bool Say(std::string_view text) const {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t more = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) {
        return false;
      }
      sent += static_cast<std::size_t>(more);
    }
    return true;
  }
  // `to_monitor`: what it says to who goes on.
  void Greet(std::string_view to_format, std::string_view to_monitor = "") const {
    EXPECT_EQ(Line(), "CLIENT PROTOCOL 2");
    EXPECT_EQ(Line(), "TIMEOUT 1");
    EXPECT_EQ(Line(), "SET FORMAT json");
    Say("SERVER PROTOCOL 2\nOK\n" + std::string(to_format) + "\n");
    if (!to_monitor.empty()) {
      EXPECT_EQ(Line(), "MONITOR ?");
      Say(std::string(to_monitor) + "\n");
    }
  }
  void UntilItLeaves() const {
    char bytes[64];
    while (::recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
  }
};

struct RasClient : testing::Test {
  RasPlace place = RasPlaceIn({});
  UniqueFd listener = ListenAt(place.address);
  std::thread server;

  ~RasClient() override {
    if (server.joinable()) {
      server.join();
    }
  }
  void Serve(const std::function<void(const Caller&)>& talk, int callers = 1) {
    server = std::thread([fd = listener.get(), talk, callers] {
      for (int i = 0; i < callers; ++i) {
        const UniqueFd caller(::accept(fd, nullptr, nullptr));
        talk(Caller{caller.get()});
      }
    });
  }
  Result<RasText> Ask(bool goes_on = false, Clock::duration limit = 20s) const {
    return AskRas(place.address, goes_on, Clock::now() + limit);
  }
};

TEST_F(RasClient, JsonIsAskedFor) {
  Serve([](const Caller& caller) {
    caller.Greet("OK");
    EXPECT_EQ(caller.Line(), "STATUS");
    caller.Say(kEmpty);
  });
  const Result<RasText> said = Ask();
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_TRUE(said->json);
  EXPECT_EQ(said->text, kEmpty);
}

TEST_F(RasClient, TextIsTakenFromWhoeverEndsAnyway) {
  Serve([](const Caller& caller) {
    caller.Greet("ERROR: Unknown command SET FORMAT json");
    EXPECT_EQ(caller.Line(), "VERBOSE STATUS");
    caller.Say("NCCL version 2.27.5\n");
  });
  const Result<RasText> said = Ask();
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_FALSE(said->json);
  EXPECT_EQ(said->text, "NCCL version 2.27.5\n");
}

TEST_F(RasClient, WhoIsToGoOnIsAskedIfItsVersionIsNew) {
  Serve([](const Caller& caller) {
    caller.Greet("OK", "ERROR: Invalid event group '?'");
    EXPECT_EQ(caller.Line(), "STATUS");
    caller.Say(kEmpty);
  });
  const Result<RasText> said = Ask(/*goes_on=*/true);
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(said->text, kEmpty);
}

// It may die of the question.
TEST_F(RasClient, AnOldOneThatIsToGoOnIsNotAsked) {
  const std::string no_monitor = "ERROR: Unknown command MONITOR ?";
  const std::string no_json = "ERROR: Unknown command SET FORMAT json";
  for (const std::string& to_format : {std::string("OK"), no_json}) {
    Serve([&](const Caller& caller) {
      caller.Greet(to_format, no_monitor);
      EXPECT_EQ(caller.Line(), "");
    });
    const Result<RasText> said = Ask(/*goes_on=*/true);
    server.join();
    ASSERT_FALSE(said);
    EXPECT_EQ(said.error().kind, ErrorKind::kRefused);
  }
}

// A stopped process listens too, and who connects to it hears nothing.
TEST_F(RasClient, AnotherIsTriedWhereOneIsSilent) {
  Serve(
      [turn = 0](const Caller& caller) mutable {
        if (turn++ > 0) {
          caller.Greet("OK");
          EXPECT_EQ(caller.Line(), "STATUS");
          caller.Say(kEmpty);
        } else {
          caller.UntilItLeaves();
        }
      },
      2);
  EXPECT_TRUE(Ask());
}

TEST_F(RasClient, WhoNeverAnswersIsLeft) {
  Serve([](const Caller& caller) { caller.UntilItLeaves(); });
  const Result<RasText> said = Ask(false, 100ms);
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("does not answer in time"));
}

TEST_F(RasClient, WhoDripsIsLeft) {
  Serve([](const Caller& caller) {
    caller.Greet("OK");
    EXPECT_EQ(caller.Line(), "STATUS");
    pollfd gone{caller.fd, POLLIN, 0};
    while (caller.Say(" ") && ::poll(&gone, 1, 5) == 0) {
    }
  });
  EXPECT_FALSE(Ask(false, 200ms));
}

TEST_F(RasClient, AFloodIsCut) {
  Serve([](const Caller& caller) {
    caller.Greet("OK");
    const std::string much(1 << 20, ' ');
    for (int i = 0; i < 100 && caller.Say(much); ++i) {
    }
  });
  const Result<RasText> said = Ask();
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("more than 4 MiB"));
}

TEST_F(RasClient, AnEndlessLineIsCut) {
  Serve([](const Caller& caller) {
    const std::string much(1 << 16, 'x');
    while (caller.Say(much)) {
    }
  });
  EXPECT_FALSE(Ask());
}

TEST_F(RasClient, StrangersAreNotUnderstood) {
  for (const char* const words : {"HTTP/1.1 400 Bad Request\r\n", "SERVER PROTOCOL 2\nno\nOK\n",
                                  "SERVER PROTOCOL 2\nOK\nwhat\n", ""}) {
    Serve([words](const Caller& caller) { caller.Say(words); });
    EXPECT_FALSE(Ask()) << words;
    server.join();
  }
}

TEST_F(RasClient, WhereNobodyListensNobodyIsAsked) {
  listener.Reset();
  EXPECT_FALSE(Ask());
  EXPECT_FALSE(AskRas("a name:80", false, Clock::now() + 1s));
  EXPECT_FALSE(AskRas("n3:80", false, Clock::now() + 1s)) << "no name is looked up";
  EXPECT_FALSE(AskRas("", false, Clock::now() + 1s));
}

TEST(RasPlace, IsItsOwnUnlessTheUserSaysOtherwise) {
  const RasPlace one = RasPlaceIn({});
  const RasPlace other = RasPlaceIn({});
  EXPECT_THAT(one.address, StartsWith("127.0.0.1:"));
  EXPECT_NE(one.address, other.address);
  EXPECT_EQ(RasPlaceIn({{"NCCL_RAS_ADDR", "localhost:9"}}).address, "localhost:9");
  EXPECT_EQ(RasPlaceIn({{"NCCL_RAS_ENABLE", "0"}, {"NCCL_RAS_ADDR", "localhost:9"}}).address, "");
  EXPECT_THAT(RasPlaceIn({{"NCCL_RAS_ENABLE", "1"}}).address, StartsWith("127.0.0.1:"));
}

// Another host's process may have the same number.
TEST(OwnProcesses, AreOfThisHostAndOfTheseWorkers) {
  const auto rank = [](std::uint32_t number, const char* host, std::int64_t pid) {
    return RasRank{.rank = number, .process = {host, pid}, .counts = {}};
  };
  const RasAnswer answer{"",
                         {{"0xa",
                           4,
                           {rank(0, "127.0.0.1", ::getpid()), rank(1, "192.0.2.1", ::getpid()),
                            rank(2, "127.0.0.1", 1), rank(3, "", ::getpid())}}}};
  const auto own = OwnProcesses(answer, {{::getpid(), 5}});
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own.at(5), (std::vector<RasProcess>{{"127.0.0.1", ::getpid()}}));
}

}  // namespace
}  // namespace ddprun

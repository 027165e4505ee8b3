#include "launcher/evidence/event_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/json.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class EventFileTest : public testing::Test {
 protected:
  static RunEvent Event(std::uint64_t number, const std::string& text = "a node is lost") {
    RunEvent event;
    event.kind = kEventLost;
    event.text = text;
    event.term = {7};
    event.number = number;
    return event;
  }
  // As one server after the other does.
  void Serve(const std::vector<RunEvent>& events, const RunId& run = "run") {
    AsioLoop loop;
    EventFile file(loop, directory_);
    for (const RunEvent& event : events) {
      file.Keep(run, event);
    }
    file.Finish(Duration{10'000});
  }
  std::string File(const char* name = "events.jsonl") const {
    std::ostringstream text;
    text << std::ifstream(directory_ / name).rdbuf();
    return text.str();
  }
  // "7.1 7.2": of the lines that are JSON.
  std::string Marks() const {
    std::istringstream lines(File());
    std::string marks;
    for (std::string line; std::getline(lines, line);) {
      if (const auto json = ParseJson(line); json.is_object()) {
        marks += (marks.empty() ? "" : " ") + json["term"].dump() + "." + json["number"].dump();
      }
    }
    return marks;
  }

  ScratchDirectory scratch_;
  const fs::path directory_ = scratch_.path();
};

TEST_F(EventFileTest, IsALineOfJsonForEachEvent) {
  RunEvent event = Event(3, "\xff \"said\"\n");
  event.when = {1'500};
  event.stop = Duration{40};
  event.lost = Duration{40};
  event.node = "n1";
  Serve({event});
  const auto json = ParseJson(File());
  EXPECT_EQ(json["run_id"], "run");
  EXPECT_EQ(json["kind"], "node_lost");
  EXPECT_EQ(json["unix_time"], 1.5);
  EXPECT_EQ(json["node"], "n1");
  EXPECT_EQ(json["stop_seconds"], 0.04);
  EXPECT_FALSE(json.contains("detect_seconds"));
  EXPECT_FALSE(json.contains("cause"));
  EXPECT_EQ(json["level"], "info");
  EXPECT_FALSE(json.contains("age_seconds"));
  const std::string text = File();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(EventFileTest, TheNextServerContinuesAndWritesNothingTwice) {
  Serve({Event(1), Event(2)});
  Serve({Event(1), Event(2), Event(3)});
  EXPECT_EQ(Marks(), "7.1 7.2 7.3");
  Serve({Event(1)}, "another run");
  EXPECT_EQ(Marks(), "7.1 7.2 7.3 7.1");
}

TEST_F(EventFileTest, ALineThatWasNotWrittenWholeSpoilsNoOther) {
  Serve({Event(1)});
  std::ofstream(directory_ / "events.jsonl", std::ios::app) << R"({"run_id":"run","ter)";
  Serve({Event(2)});
  EXPECT_EQ(Marks(), "7.1 7.2");
}

TEST_F(EventFileTest, LinesThatOthersPutThereAreNoEvents) {
  std::ofstream(directory_ / "events.jsonl")
      << std::string(100'000, '[') << "\n{\"term\":-1,\"number\":\"x\",\"run_id\":7}\n[]\n\n";
  Serve({Event(1)});
  EXPECT_NE(File().find("\"number\":1,"), std::string::npos);
}

TEST_F(EventFileTest, AFileThatIsLongBecomesTheOneBefore) {
  std::ofstream(directory_ / "events.jsonl") << std::string(EventFile::kMostBytes, '\n');
  Serve({Event(1)});
  EXPECT_EQ(Marks(), "7.1");
  EXPECT_EQ(fs::file_size(directory_ / "events.1.jsonl"), EventFile::kMostBytes);
}

// Nor is a link followed.
TEST_F(EventFileTest, AFifoIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo((directory_ / "events.jsonl").c_str(), 0600), 0);
  const UniqueFd reader(::open((directory_ / "events.jsonl").c_str(), O_RDONLY | O_NONBLOCK));
  Serve({Event(1)});
  char byte;
  EXPECT_LE(::read(reader.get(), &byte, 1), 0);
  fs::remove(directory_ / "events.jsonl");
  std::ofstream(directory_ / "other") << "mine";
  fs::create_symlink(directory_ / "other", directory_ / "events.jsonl");
  Serve({Event(1)});
  EXPECT_EQ(File("other"), "mine");
}

}  // namespace
}  // namespace ddprun

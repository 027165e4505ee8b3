#include "rendezvous/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "common/asio_loop.h"
#include "rendezvous/journal_file.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Of a run whose records come faster than the disk, the newest is kept, and its answer comes.
TEST(Journal, KeepsTheNewestAndAnswers) {
  const fs::path path = fs::path(testing::TempDir()) / ("kept_" + std::to_string(::getpid()));
  JournalContents found;
  std::vector<std::uint64_t> kept;
  {
    AsioLoop loop;  // Joins the thread that has the file.
    Result<JournalFile> file = JournalFile::Open(path, found);
    ASSERT_TRUE(file);
    Journal journal(loop, std::make_shared<JournalFile>(*std::move(file)));
    for (std::uint64_t number = 1; number <= 50; ++number) {
      RunRecord record;
      record.run_id = "run";
      record.shape = RunShape{};
      record.reserved = {number};
      journal.Keep(record, [&, number] {
        kept.push_back(number);
        if (number == 50) {
          loop.Stop();
        }
      });
    }
    loop.Run();
  }
  EXPECT_EQ(kept, (std::vector<std::uint64_t>{1, 50}));
  ASSERT_TRUE(JournalFile::Open(path, found));
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(found.runs[0].reserved, Generation{50});
  fs::remove(path);
}

}  // namespace
}  // namespace ddprun

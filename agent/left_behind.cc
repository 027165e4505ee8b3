#include "agent/left_behind.h"

#include <utility>

#include "agent/error_file.h"
#include "common/log.h"

namespace ddprun {

void LeftBehind::Read(const std::filesystem::path& error_file, LastErrors errors, bool stays,
                      Told told) {
  struct Found {
    FailureDetails details;
    std::vector<std::string> lines;
  };
  const auto found = std::make_shared<Found>();
  const auto item = std::make_shared<Item>();
  items_.push_back(item);
  const auto read = [found, error_file, errors, stays] {
    found->details = ReadDetails(error_file, stays);
    found->lines = errors.log.empty() ? errors.lines : LastLinesOf(errors.log);
  };
  loop_.RunBounded(kLimit, read, [this, found, item, error_file, errors, told](bool in_time) {
    if (in_time) {
      item->tell = [found, told] { told(std::move(found->details), std::move(found->lines)); };
    } else {
      const std::string directory = error_file.parent_path().native();
      Log(LogLevel::kWarning, "reading what a worker left in " + directory + " takes longer than " +
                                  FormatDuration(kLimit) +
                                  " (does its disk answer?): going on without its error");
      FailureDetails unread;
      unread.message = "(its files did not answer: " + directory.substr(0, kMaxPath) + ")";
      item->tell = [unread, errors, told] { told(unread, errors.lines); };
    }
    TellNext();
  });
}

void LeftBehind::Then(std::function<void()> call) {
  items_.push_back(std::make_shared<Item>(Item{std::move(call)}));
  TellNext();
}

// What is told may ask for more.
void LeftBehind::TellNext() {
  while (!items_.empty() && items_.front()->tell) {
    const std::shared_ptr<Item> next = std::move(items_.front());
    items_.pop_front();
    next->tell();
  }
}

}  // namespace ddprun

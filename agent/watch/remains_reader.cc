#include "agent/watch/remains_reader.h"

#include <utility>

#include "common/log.h"

namespace ddprun {

void RemainsReader::Read(LeftFiles files, std::function<void(WorkerRemains)> told) {
  const auto found = std::make_shared<WorkerRemains>();
  const auto item = std::make_shared<Item>();
  items_.push_back(item);
  const auto read = [found, read = std::move(files.read)] { *found = read(); };
  loop_.RunBounded(
      kLimit, read,
      [this, found, item, directory = std::move(files.directory),
       lines = std::move(files.last_lines), told = std::move(told)](bool in_time) {
        if (in_time) {
          item->tell = [found, told] { told(std::move(*found)); };
        } else {
          Log(LogLevel::kWarning, "reading a worker's error file in " + directory +
                                      " takes longer than " + FormatDuration(kLimit) +
                                      " (is its file system responding?): continuing without it");
          WorkerRemains unread{{}, lines};
          unread.details.message = "(cannot read its files: " + directory.substr(0, kMaxPath) + ")";
          item->tell = [unread, told] { told(unread); };
        }
        TellNext();
      });
}

void RemainsReader::Then(std::function<void()> call) {
  items_.push_back(std::make_shared<Item>(Item{std::move(call)}));
  TellNext();
}

// The caller may ask for more while it gets this.
void RemainsReader::TellNext() {
  while (!items_.empty() && items_.front()->tell) {
    const std::shared_ptr<Item> next = std::move(items_.front());
    items_.pop_front();
    next->tell();
  }
}

}  // namespace ddprun

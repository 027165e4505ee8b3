#include "agent/commands/stacks_job.h"

#include <deque>
#include <utility>

namespace ddprun {
namespace {

struct Found {
  explicit Found(Loop& the_loop) : loop(the_loop) {}

  Loop& loop;
  bool all = false;
  std::deque<AnswerRecord> records;
  std::size_t told = 0;  // Bytes of the first one's text.
  std::size_t most = 0;
  std::function<void(JobPiece)> done;  // Empty: no caller waits.

  void Deliver(const std::shared_ptr<Found>& self) {
    if (!done || !all) {
      return;
    }
    JobPiece piece;
    while (!records.empty() && piece.bytes.size() + 2 * kRecordHead < most) {
      const AnswerRecord& record = records.front();
      const std::size_t room = most - piece.bytes.size() - kRecordHead;
      AnswerRecord part = record;
      part.text = record.text.substr(told, room);
      told += part.text.size();
      AppendRecord(part, piece.bytes);
      if (told == record.text.size()) {
        records.pop_front();
        told = 0;
      }
    }
    piece.last = records.empty();
    loop.Post([self, piece = std::move(piece)] {
      if (const auto hears = std::exchange(self->done, nullptr)) {
        hears(piece);
      }
    });
  }
};

class StacksJob final : public RequestJob {
 public:
  StacksJob(Loop& loop, const TakeStacksOf& take, const RequestSpec& spec)
      : found_(std::make_shared<Found>(loop)) {
    give_up_ = take(spec, [found = found_](std::vector<AnswerRecord> records) {
      found->records.assign(records.begin(), records.end());
      found->all = true;
      found->Deliver(found);
    });
  }
  ~StacksJob() override {
    found_->done = nullptr;
    if (give_up_ && !found_->all) {
      give_up_();
    }
  }

  void Next(std::size_t most, std::function<void(JobPiece)> done) override {
    found_->most = most;
    found_->done = std::move(done);
    found_->Deliver(found_);
  }

 private:
  const std::shared_ptr<Found> found_;
  std::function<void()> give_up_;
};

}  // namespace

std::unique_ptr<RequestJob> MakeStacksJob(Loop& loop, const TakeStacksOf& take,
                                          const RequestSpec& spec) {
  return std::make_unique<StacksJob>(loop, take, spec);
}

}  // namespace ddprun

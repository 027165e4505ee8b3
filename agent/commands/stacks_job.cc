#include "agent/commands/stacks_job.h"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/lifetime.h"

namespace ddprun {
namespace {

class StacksJob final : public RequestJob {
 public:
  StacksJob(Loop& loop, const TakeStacksOf& take, const RequestSpec& spec) : loop_(loop) {
    give_up_ = take(spec, life_.Guard([this](const std::vector<AnswerRecord>& records) {
      records_.assign(records.begin(), records.end());
      all_ = true;
      Deliver();
    }));
  }
  ~StacksJob() override {
    if (give_up_ && !all_) {
      give_up_();
    }
  }

  void Next(std::size_t most, std::function<void(JobPiece)> done) override {
    most_ = most;
    done_ = std::move(done);
    Deliver();
  }

 private:
  void Deliver() {
    if (!done_ || !all_) {
      return;
    }
    JobPiece piece;
    while (!records_.empty() && piece.bytes.size() + 2 * kRecordHead < most_) {
      const AnswerRecord& record = records_.front();
      const std::size_t room = most_ - piece.bytes.size() - kRecordHead;
      AnswerRecord part = record;
      part.text = record.text.substr(told_, room);
      told_ += part.text.size();
      AppendRecord(part, piece.bytes);
      if (told_ == record.text.size()) {
        records_.pop_front();
        told_ = 0;
      }
    }
    piece.last = records_.empty();
    loop_.Post(life_.Guard([this, piece = std::move(piece)] {
      if (const auto hears = std::exchange(done_, nullptr)) {
        hears(piece);
      }
    }));
  }

  Loop& loop_;
  bool all_ = false;
  std::deque<AnswerRecord> records_;
  std::size_t told_ = 0;  // Bytes of the first one's text.
  std::size_t most_ = 0;
  std::function<void(JobPiece)> done_;  // Empty: no caller waits.
  std::function<void()> give_up_;
  const Lifetime life_;
};

}  // namespace

std::unique_ptr<RequestJob> MakeStacksJob(Loop& loop, const TakeStacksOf& take,
                                          const RequestSpec& spec) {
  return std::make_unique<StacksJob>(loop, take, spec);
}

}  // namespace ddprun

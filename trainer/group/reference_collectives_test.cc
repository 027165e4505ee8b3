#include "trainer/group/reference_collectives.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/group/ranks_testing.h"

namespace ddprun {
namespace {

constexpr auto kLimit = std::chrono::seconds(20);

// Mailboxes between threads; a send waits until it has been received, so that an order of
// transfers that only works with buffers stands still here.
class Mail {
 public:
  void Put(int from, int to, const at::Tensor& data) {
    std::unique_lock lock(mutex_);
    boxes_[{from, to}].push_back(data.clone());
    const std::size_t mine = ++sent_[{from, to}];
    changed_.notify_all();
    Until(lock, [&] { return received_[{from, to}] >= mine; });
  }
  void Take(int from, int to, const at::Tensor& data) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    Until(lock, [&] { return !box.empty(); });
    EXPECT_EQ(box.front().sizes(), data.sizes());
    data.copy_(box.front());
    box.pop_front();
    ++received_[{from, to}];
    changed_.notify_all();
  }

 private:
  using Pair = std::pair<int, int>;

  void Until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
    if (!changed_.wait_for(lock, kLimit, done)) {
      throw std::runtime_error("stands still");
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Pair, std::deque<at::Tensor>> boxes_;
  std::map<Pair, std::size_t> sent_;
  std::map<Pair, std::size_t> received_;
};

class ThreadWork : public c10d::Work {
 public:
  explicit ThreadWork(std::function<void()> work)
      : thread_([this, work] {
          try {
            work();
          } catch (const std::exception&) {
            failed_ = std::current_exception();
          }
        }) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    thread_.join();
    if (failed_) {
      std::rethrow_exception(failed_);
    }
    return true;
  }

 private:
  std::exception_ptr failed_;
  std::jthread thread_;  // Last: it uses the other.
};

class MailGroup : public c10d::ProcessGroup {
 public:
  MailGroup(Mail& mail, int rank, int size) : ProcessGroup(rank, size), mail_(mail) {}
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int) override {
    return c10::make_intrusive<ThreadWork>(
        [this, data = tensors[0], to] { mail_.Put(getRank(), to, data); });
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int) override {
    return c10::make_intrusive<ThreadWork>(
        [this, data = tensors[0], from] { mail_.Take(from, getRank(), data); });
  }

 private:
  Mail& mail_;
};

void OnEveryRank(int size, const std::function<void(c10d::ProcessGroup&)>& work) {
  Mail mail;
  OnRanks(static_cast<std::size_t>(size), [&](std::size_t rank) {
    const auto group = c10::make_intrusive<MailGroup>(mail, static_cast<int>(rank), size);
    work(*group);
  });
}

constexpr ReduceOperation kOperations[] = {
    ReduceOperation::SUM,  ReduceOperation::PRODUCT, ReduceOperation::MIN,  ReduceOperation::MAX,
    ReduceOperation::BAND, ReduceOperation::BOR,     ReduceOperation::BXOR, ReduceOperation::AVG};

using Numbers = std::vector<std::int32_t>;

Numbers ValuesOf(int rank, std::int64_t count) {
  Numbers values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>((static_cast<std::size_t>(rank) * 3 + i) % 4 + 1);
  }
  return values;
}

std::int32_t Fold(ReduceOperation operation, std::int32_t a, std::int32_t b) {
  switch (operation) {
    case ReduceOperation::SUM:
    case ReduceOperation::AVG:
      return a + b;
    case ReduceOperation::PRODUCT:
      return a * b;
    case ReduceOperation::MIN:
      return std::min(a, b);
    case ReduceOperation::MAX:
      return std::max(a, b);
    case ReduceOperation::BAND:
      return a & b;
    case ReduceOperation::BOR:
      return a | b;
    default:
      return a ^ b;
  }
}

// Averages are of floats: as they are in every training.
at::Tensor TensorOf(ReduceOperation operation, const Numbers& numbers) {
  return at::tensor(numbers, operation == ReduceOperation::AVG ? at::kFloat : at::kInt);
}

at::Tensor Reduced(ReduceOperation operation, int ranks, std::int64_t count) {
  Numbers result = ValuesOf(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    const Numbers theirs = ValuesOf(rank, count);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = Fold(operation, result[i], theirs[i]);
    }
  }
  const at::Tensor reduced = TensorOf(operation, result);
  return operation == ReduceOperation::AVG ? reduced / ranks : reduced;
}

// Every number of ranks, including odd ones; counts below, at and between multiples of it.
void ForEverySize(const std::function<void(int ranks, std::int64_t count)>& test) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    for (const std::int64_t count : {1, 2, 12, 61}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(count) + " elements");
      test(ranks, count);
    }
  }
}

TEST(ReferenceCollectives, AllReduceGivesEveryRankTheReduction) {
  ForEverySize([](int ranks, std::int64_t count) {
    for (const ReduceOperation operation : kOperations) {
      const at::Tensor expected = Reduced(operation, ranks, count);
      OnEveryRank(ranks, [&](c10d::ProcessGroup& group) {
        for (const Style style : {Style::kBlocking, Style::kOverlapped}) {
          for (const auto all_reduce : {AllReduceNaive, AllReduceRing}) {
            const at::Tensor data = TensorOf(operation, ValuesOf(group.getRank(), count));
            ASSERT_NO_THROW(all_reduce(group, style, operation, data));
            EXPECT_TRUE(data.equal(expected)) << static_cast<int>(operation);
          }
        }
      });
    }
  });
}

TEST(ReferenceCollectives, ReduceGivesItToTheRoot) {
  constexpr ReduceOperation kSum = ReduceOperation::SUM;
  ForEverySize([](int ranks, std::int64_t count) {
    const at::Tensor expected = Reduced(kSum, ranks, count);
    const int root = ranks - 1;
    OnEveryRank(ranks, [&](c10d::ProcessGroup& group) {
      for (const Style style : {Style::kBlocking, Style::kOverlapped}) {
        for (const auto reduce : {ReduceNaive, ReduceRing}) {
          const at::Tensor data = TensorOf(kSum, ValuesOf(group.getRank(), count));
          ASSERT_NO_THROW(reduce(group, style, kSum, data, root));
          if (group.getRank() == root) {
            EXPECT_TRUE(data.equal(expected));
          }
        }
      }
    });
  });
}

TEST(ReferenceCollectives, ReduceScatterAndAllToAllDealOutShares) {
  constexpr ReduceOperation kMax = ReduceOperation::MAX;
  ForEverySize([](int ranks, std::int64_t count) {
    const at::Tensor most = Reduced(kMax, ranks, count * ranks);
    OnEveryRank(ranks, [&](c10d::ProcessGroup& group) {
      const int rank = group.getRank();
      const at::Tensor in = TensorOf(kMax, ValuesOf(rank, count * ranks));
      const at::Tensor out = at::empty({count}, at::kInt);
      ASSERT_NO_THROW(ReduceScatter(group, kMax, in, out));
      EXPECT_TRUE(out.equal(most.narrow(0, rank * count, count)));
      const at::Tensor exchanged = at::empty_like(in);
      ASSERT_NO_THROW(AllToAll(group, in, exchanged));
      for (int from = 0; from < ranks; ++from) {
        const at::Tensor theirs = TensorOf(kMax, ValuesOf(from, count * ranks));
        EXPECT_TRUE(
            exchanged.narrow(0, from * count, count).equal(theirs.narrow(0, rank * count, count)));
      }
    });
  });
}

TEST(ReferenceCollectives, SendRecvTurnsARing) {
  OnEveryRank(3, [](c10d::ProcessGroup& group) {
    const int rank = group.getRank();
    const at::Tensor out = at::full({1}, rank, at::kInt);
    const at::Tensor in = at::full({1}, -1, at::kInt);
    ASSERT_NO_THROW(SendRecv(group, out, (rank + 1) % 3, in, (rank + 2) % 3));
    EXPECT_EQ(in.item<int>(), (rank + 2) % 3);
  });
}

// In another order than by rank, or in double precision, the result differs in the last bit.
TEST(ReferenceCollectives, NaiveSumsAreRoundedInRankOrder) {
  OnEveryRank(3, [](c10d::ProcessGroup& group) {
    const std::vector<float> values = {1.0F, 1e8F, -1e8F};
    const at::Tensor data = at::full({1}, values[static_cast<std::size_t>(group.getRank())]);
    ASSERT_NO_THROW(AllReduceNaive(group, Style::kOverlapped, ReduceOperation::SUM, data));
    EXPECT_EQ(data.item<float>(), 0.0F);  // (1 + 1e8) - 1e8
  });
}

}  // namespace
}  // namespace ddprun

#include "trainer/group/reference_collectives.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "trainer/group/ranks_testing.h"

namespace ddprun {
namespace {

constexpr auto kLimit = std::chrono::seconds(20);

// Mailboxes between threads; a send waits until it has been received, so that an order of
// transfers that only works with buffers stands still here.
class Mail {
 public:
  Result<void> Put(std::size_t from, std::size_t to, std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    box.push_back({bytes.begin(), bytes.end()});
    const std::size_t mine = ++sent_[{from, to}];
    changed_.notify_all();
    return Until(lock, [&] { return received_[{from, to}] >= mine; });
  }
  Result<void> Take(std::size_t from, std::size_t to, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    RETURN_IF_ERROR(Until(lock, [&] { return !box.empty(); }));
    EXPECT_EQ(box.front().size(), bytes.size());
    std::copy(box.front().begin(), box.front().end(), bytes.begin());
    box.pop_front();
    ++received_[{from, to}];
    changed_.notify_all();
    return {};
  }

 private:
  using Pair = std::pair<std::size_t, std::size_t>;

  Result<void> Until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
    if (!changed_.wait_for(lock, kLimit, done)) {
      return Error{ErrorKind::kUnavailable, "stands still"};
    }
    return {};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Pair, std::deque<std::vector<std::byte>>> boxes_;
  std::map<Pair, std::size_t> sent_;
  std::map<Pair, std::size_t> received_;
};

class ThreadTransfer : public Transfer {
 public:
  explicit ThreadTransfer(std::function<Result<void>()> work)
      : thread_([this, work] { result_ = work(); }) {}
  Result<void> Wait() override {
    thread_.join();
    return result_;
  }

 private:
  Result<void> result_;
  std::thread thread_;
};

class MailWire : public Wire {
 public:
  MailWire(Mail& mail, std::size_t rank, std::size_t size)
      : mail_(mail), rank_(rank), size_(size) {}
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::unique_ptr<Transfer> StartSend(std::span<const std::byte> bytes, std::size_t to) override {
    return std::make_unique<ThreadTransfer>([=, this] { return mail_.Put(rank_, to, bytes); });
  }
  std::unique_ptr<Transfer> StartRecv(std::span<std::byte> bytes, std::size_t from) override {
    return std::make_unique<ThreadTransfer>([=, this] { return mail_.Take(from, rank_, bytes); });
  }

 private:
  Mail& mail_;
  const std::size_t rank_;
  const std::size_t size_;
};

void OnEveryRank(std::size_t size, const std::function<void(Wire&)>& work) {
  Mail mail;
  OnRanks(size, [&](std::size_t rank) {
    MailWire wire(mail, rank, size);
    work(wire);
  });
}

using Numbers = std::vector<std::int32_t>;

Numbers ValuesOf(std::size_t rank, std::size_t count) {
  Numbers values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::int32_t>((rank * 3 + i) % 4 + 1);
  }
  return values;
}

std::int32_t Fold(ReduceOp op, std::int32_t a, std::int32_t b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return a + b;
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
  }
  return 0;
}

Numbers Reduced(ReduceOp op, std::size_t ranks, std::size_t count) {
  Numbers result = ValuesOf(0, count);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const Numbers theirs = ValuesOf(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = Fold(op, result[i], theirs[i]);
    }
  }
  for (std::int32_t& value : result) {
    value = op == ReduceOp::kAvg ? value / static_cast<std::int32_t>(ranks) : value;
  }
  return result;
}

std::span<std::byte> BytesOf(Numbers& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

// Every number of ranks, including odd ones; counts below, at and between multiples of it.
void ForEverySize(const std::function<void(std::size_t ranks, std::size_t count)>& test) {
  for (const std::size_t ranks : {1, 2, 3, 4, 5}) {
    for (const std::size_t count : {1, 2, 12, 61}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(count) + " elements");
      test(ranks, count);
    }
  }
}

TEST(ReferenceCollectives, AllReduceGivesEveryRankTheReduction) {
  ForEverySize([](std::size_t ranks, std::size_t count) {
    for (const ReduceOp op : kReduceOps) {
      const Numbers expected = Reduced(op, ranks, count);
      OnEveryRank(ranks, [&](Wire& wire) {
        const Reduction reduction{op, Element::kI32};
        for (const Style style : {Style::kBlocking, Style::kOverlapped}) {
          for (const auto all_reduce : {AllReduceNaive, AllReduceRing}) {
            Numbers data = ValuesOf(wire.rank(), count);
            ASSERT_TRUE(all_reduce(wire, style, reduction, BytesOf(data)));
            EXPECT_EQ(data, expected) << NameOf(op);
          }
        }
      });
    }
  });
}

TEST(ReferenceCollectives, ReduceGivesItToTheRoot) {
  ForEverySize([](std::size_t ranks, std::size_t count) {
    const Numbers expected = Reduced(ReduceOp::kSum, ranks, count);
    const std::size_t root = ranks - 1;
    OnEveryRank(ranks, [&](Wire& wire) {
      const Reduction reduction{ReduceOp::kSum, Element::kI32};
      for (const Style style : {Style::kBlocking, Style::kOverlapped}) {
        for (const auto reduce : {ReduceNaive, ReduceRing}) {
          Numbers data = ValuesOf(wire.rank(), count);
          ASSERT_TRUE(reduce(wire, style, reduction, BytesOf(data), root));
          if (wire.rank() == root) {
            EXPECT_EQ(data, expected);
          }
        }
      }
    });
  });
}

TEST(ReferenceCollectives, ReduceScatterAndAllToAllDealOutShares) {
  ForEverySize([](std::size_t ranks, std::size_t count) {
    const Numbers sum = Reduced(ReduceOp::kMax, ranks, count * ranks);
    OnEveryRank(ranks, [&](Wire& wire) {
      Numbers in = ValuesOf(wire.rank(), count * ranks);
      Numbers out(count);
      ASSERT_TRUE(ReduceScatter(wire, {ReduceOp::kMax, Element::kI32}, BytesOf(in), BytesOf(out)));
      const auto begin = static_cast<std::ptrdiff_t>(wire.rank() * count);
      EXPECT_EQ(out, Numbers(sum.begin() + begin,
                             sum.begin() + begin + static_cast<std::ptrdiff_t>(count)));
      Numbers exchanged(count * ranks);
      ASSERT_TRUE(AllToAll(wire, BytesOf(in), BytesOf(exchanged)));
      for (std::size_t i = 0; i < exchanged.size(); ++i) {
        EXPECT_EQ(exchanged[i],
                  ValuesOf(i / count, count * ranks)[wire.rank() * count + i % count]);
      }
    });
  });
}

TEST(ReferenceCollectives, SendRecvTurnsARing) {
  OnEveryRank(3, [](Wire& wire) {
    Numbers out = {static_cast<std::int32_t>(wire.rank())};
    Numbers in = {-1};
    ASSERT_TRUE(
        SendRecv(wire, BytesOf(out), (wire.rank() + 1) % 3, BytesOf(in), (wire.rank() + 2) % 3));
    EXPECT_EQ(in[0], static_cast<std::int32_t>((wire.rank() + 2) % 3));
  });
}

// In another order than by rank, or in double precision, the result differs in the last bit.
TEST(ReferenceCollectives, NaiveSumsAreRoundedInRankOrder) {
  OnEveryRank(3, [](Wire& wire) {
    const std::vector<float> values = {1.0F, 1e8F, -1e8F};
    float data = values[wire.rank()];
    ASSERT_TRUE(AllReduceNaive(wire, Style::kOverlapped, {ReduceOp::kSum, Element::kF32},
                               std::as_writable_bytes(std::span(&data, 1))));
    EXPECT_EQ(data, 0.0F);  // (1 + 1e8) - 1e8
  });
}

TEST(Combine, HalfPrecisionRoundsToNearestEven) {
  std::uint16_t into = 0x3f80;         // 1 as bfloat16
  const std::uint16_t other = 0x3b80;  // 2^-8: half of the last place; the even neighbour is 1.
  Combine({ReduceOp::kSum, Element::kBF16}, &into, &other, 1);
  EXPECT_EQ(into, 0x3f80);
  const std::uint16_t more = 0x3bc0;  // 1.5 times that
  Combine({ReduceOp::kSum, Element::kBF16}, &into, &more, 1);
  EXPECT_EQ(into, 0x3f81);
  std::uint16_t half = 0x3c00;  // 1 as half
  Combine({ReduceOp::kSum, Element::kF16}, &half, &half, 1);
  EXPECT_EQ(half, 0x4000);
  std::uint16_t nan = 0x7fc0;
  Combine({ReduceOp::kMax, Element::kBF16}, &into, &nan, 1);
  EXPECT_EQ(into, 0x7fc0);
}

TEST(Combine, BitsAreForIntegers) {
  EXPECT_FALSE(Defined({ReduceOp::kBxor, Element::kF32}));
  EXPECT_TRUE(Defined({ReduceOp::kBxor, Element::kU8}));
  EXPECT_TRUE(Defined({ReduceOp::kAvg, Element::kBF16}));
}

}  // namespace
}  // namespace ddprun

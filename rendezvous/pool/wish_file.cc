#include "rendezvous/pool/wish_file.h"

#include <memory>
#include <string>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "rendezvous/wire/kept_wishes.h"

namespace ddprun {
namespace {

constexpr Duration kWritesAgain{1'000};
constexpr std::size_t kMostOfFile = kMostWishes * 2 * kMaxWork;

}  // namespace

WishFile::WishFile(Loop& loop, std::filesystem::path file)
    : loop_(loop), file_(std::move(file)), again_(loop) {}

Result<std::vector<PoolWish>> WishFile::Read(const std::filesystem::path& file) {
  const Result<std::string> bytes = ReadOrdinary(file, kMostOfFile);
  if (!bytes && bytes.error().kind == ErrorKind::kNotFound) {
    return std::vector<PoolWish>{};
  }
  RETURN_IF_ERROR(bytes);
  auto wishes = DecodeWishes(*bytes);
  return wishes ? std::move(wishes)
                : Error{ErrorKind::kInvalid,
                        "cannot read '" + file.native() + "': " + wishes.error().message +
                            ". Remove it to start without the detached runs that waited"};
}

void WishFile::Keep(std::vector<PoolWish> wishes) {
  wishes_ = std::move(wishes);
  due_ = true;
  WriteNext();
}

void WishFile::WriteNext() {
  if (writing_ || !due_) {
    return;
  }
  writing_ = true;
  due_ = false;
  const auto written = std::make_shared<Result<void>>();
  loop_.RunOnDisk([file = file_, wishes = wishes_,
                   written] { *written = WriteWhole(file, Encode(wishes), 0600); },
                  [this, written] {
                    writing_ = false;
                    OnWritten(*written ? "" : written->error().message);
                    WriteNext();
                  });
}

void WishFile::OnWritten(const std::string& why) {
  if (!why.empty() && !failing_) {
    Log(LogLevel::kError, "the pool's detached runs cannot be kept: " + why +
                              "; a server that is started again now does not know those that "
                              "wait; trying again");
  } else if (why.empty() && failing_) {
    Log(LogLevel::kInfo, "the pool's detached runs are kept again in " + file_.native());
  }
  failing_ = !why.empty();
  if (failing_) {
    again_.ArmAt(loop_.Now() + kWritesAgain, [this] {
      due_ = true;
      WriteNext();
    });
  }
}

}  // namespace ddprun

// The files of a checkpoint directory as one process sees them: between any two operations it may
// stand still, be killed, or find that the disk does not answer; a listing may be old; the last
// write of a killed process may be done long after its end.
//
// Locks do nothing here, and no caller asks for one. A process always sees what it did itself.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/fiber.h"
#include "tests/sim/head_log.h"
#include "tests/sim/machine.h"
#include "tests/sim/rules.h"
#include "tests/sim/simulation.h"
#include "trainer/checkpoint/memory_file_system_testing.h"

namespace ddprun::sim {

namespace fs = std::filesystem;

inline constexpr const char* kCheckpoints = "/nowhere-ddprun/ckpt";
inline constexpr Duration kOldestListing{10'000};

// One disk, shared or a machine's own.
struct Disk {
  struct Listing {
    Time when;
    std::vector<std::string> names;
  };
  explicit Disk(Laws& laws) : log(laws) {}

  MemoryFileSystem files;
  HeadLog log;
  std::deque<Listing> past;  // Of the directory; where listings may be old.
};

// Operations happen on fibers; see fiber.h.
class ProcessFiles final : public FileSystem {
 public:
  ProcessFiles(Simulation& simulation, Disk& disk, const Machine& machine)
      : simulation_(simulation), disk_(disk), machine_(machine) {}

  // `with_power`: nothing of it happens any more. Else its last operation may.
  void Kill(bool with_power) {
    if (!killed_) {
      last_lands_ = !with_power && simulation_.random.Chance(0.3);
    }
    killed_ = true;
  }
  bool dead() const { return killed_; }
  // How often it was kept from continuing for long; and whether it is so now.
  std::uint64_t hindered() const { return hindered_; }
  // How many of its operations failed.
  std::uint64_t failed() const { return failed_; }
  bool held() const { return held_ > 0 || Stuck(); }

  Result<std::vector<std::string>> List(const fs::path& directory) override {
    Begin(false);
    if (directory == kCheckpoints) {
      if (const Disk::Listing* const old = OldListing()) {
        return old->names;
      }
      seen_ = simulation_.Now();
    }
    return disk_.files.List(directory);
  }
  Result<std::string> Read(const fs::path& path, std::size_t max_bytes) override {
    Begin(false);
    ASSIGN_OR_RETURN(std::string text, disk_.files.Read(path, max_bytes));
    if (!IsRecord(path)) {
      return text;
    }
    if (const Disk::Listing* const old = OldListing()) {  // Nor does a lookup ask the server.
      if (std::ranges::find(old->names, path.filename().native()) == old->names.end()) {
        return Error{ErrorKind::kNotFound, path.native() + " is not seen yet"};
      }
    }
    return text;
  }
  Result<DigestedBytes> ReadDigested(const fs::path& path, std::size_t max_bytes) override {
    Begin(false);
    return disk_.files.ReadDigested(path, max_bytes);
  }
  Result<std::uint64_t> Write(const fs::path& path,
                              const std::vector<std::string_view>& parts) override {
    Begin(true);
    ASSIGN_OR_RETURN(const std::uint64_t digest, disk_.files.Write(path, parts));
    OnChanged(path);
    return digest;
  }
  Result<void> Sync(const fs::path& path) override {
    Begin(true);
    return Without("sync") ? Result<void>() : disk_.files.Sync(path);
  }
  Result<bool> Link(const fs::path& existing, const fs::path& name) override {
    Begin(true);
    if (Without("one-writer-a-number") && disk_.files.Exists(name)) {
      RETURN_IF_ERROR(disk_.files.Remove(name));
    }
    // The answer may be lost, and not the link.
    const bool lands =
        disk_.files.fail_at != 0 && disk_.files.fail_with == EIO && simulation_.random.Chance(0.5);
    disk_.files.fail_at = lands ? 0 : disk_.files.fail_at;
    ASSIGN_OR_RETURN(const bool linked, disk_.files.Link(existing, name));
    if (linked && IsRecord(name)) {
      const std::string text = disk_.files.Read(name, 1 << 16).value();
      const std::uint64_t number = std::stoull(name.filename().native().substr(6));
      disk_.log.OnRecord(FenceRecordFromText(text, number, name.native()).value());
    }
    OnChanged(name);
    if (lands) {
      return SystemError("link", name.native(), EIO);
    }
    return linked;
  }
  Result<void> Rename(const fs::path& from, const fs::path& to) override {
    Begin(true);
    RETURN_IF_ERROR(disk_.files.Rename(from, to));
    OnChanged(to);
    return {};
  }
  Result<void> MakeDirectory(const fs::path& path) override {
    Begin(true);
    RETURN_IF_ERROR(disk_.files.MakeDirectory(path));
    OnChanged(path);
    return {};
  }
  Result<void> Remove(const fs::path& path) override {
    Begin(true);
    RETURN_IF_ERROR(disk_.files.Remove(path));
    OnChanged(path);
    return {};
  }
  Result<std::uint64_t> FreeBytes(const fs::path& directory) override {
    Begin(false);
    return disk_.files.FreeBytes(directory);
  }

 private:
  static constexpr Duration kLook{200};
  static constexpr Duration kLongest{40'000};
  static constexpr double kBrief = 0.3;  // Operations that take any time worth mention.

  static bool IsRecord(const fs::path& path) {
    return path.filename().native().starts_with("fence-");
  }
  // The disk does not answer this process now, or it stands still.
  bool Stuck() const { return machine_.frozen() || !machine_.checkpoints.answers; }
  // Each operation: it may take any time, and never return, or fail half done.
  void Begin(bool writes) {
    Random& random = simulation_.random;
    if (killed_) {
      throw Fiber::Gone{};
    }
    if (random.Chance(simulation_.setup.long_pauses)) {
      HoldUp(random.Between(100ms, kLongest));
    } else if (random.Chance(kBrief)) {
      Fiber::Sleep(random.Between(1ms, 20ms));
    }
    while (!killed_ && Stuck()) {
      HoldUp(kLook);
    }
    if (killed_ && !std::exchange(last_lands_, false)) {
      throw Fiber::Gone{};
    }
    if (killed_) {  // Its request is on its way; it does not hear the answer.
      Fiber::Sleep(random.Between(0ms, kLongest));
    }
    const int error = machine_.checkpoints.error;
    const bool fails = error == ENOSPC ? writes : error != 0 && random.Chance(0.3);
    disk_.files.fail_at = fails ? disk_.files.operations + 1 : 0;
    disk_.files.fail_with = error;
    failed_ += fails ? 1 : 0;
    hindered_ += fails ? 1 : 0;
  }
  void HoldUp(Duration duration) {
    ++held_;
    Fiber::Sleep(duration);
    --held_;
    ++hindered_;
  }
  void OnChanged(const fs::path& path) {
    seen_ = simulation_.Now();
    if (simulation_.setup.stale_listings == 0 || path.parent_path() != kCheckpoints) {
      return;
    }
    const Time oldest = seen_ - kOldestListing;
    while (disk_.past.size() > 1 && disk_.past[1].when < oldest) {
      disk_.past.pop_front();
    }
    disk_.past.push_back({seen_, disk_.files.List(kCheckpoints).value()});
  }
  // Of the directory, if this process is shown an old one; never older than one it has seen.
  const Disk::Listing* OldListing() {
    if (!simulation_.random.Chance(simulation_.setup.stale_listings)) {
      return nullptr;
    }
    const Time now = simulation_.Now();
    seen_ = std::max(seen_, now - simulation_.random.Between(0ms, kOldestListing));
    const auto after = std::ranges::upper_bound(disk_.past, seen_, {}, &Disk::Listing::when);
    return after == disk_.past.begin() ? nullptr : &*std::prev(after);
  }

  Simulation& simulation_;
  Disk& disk_;
  const Machine& machine_;
  bool killed_ = false;
  bool last_lands_ = false;
  std::uint64_t hindered_ = 0;
  std::uint64_t failed_ = 0;
  int held_ = 0;  // Fibers of it that are.
  Time seen_;     // The state of then, or later, is what this process sees.
};

}  // namespace ddprun::sim

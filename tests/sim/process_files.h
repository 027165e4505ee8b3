// The files of a checkpoint directory as one process sees them: between any two operations it may
// stand still, be killed, or find that the disk does not answer; a listing may be old; what a
// killed process asked for last may be done long after its end.
//
// Locks do nothing here, and nobody asks for one. A process always sees what it did itself.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/agenda.h"
#include "tests/sim/head_log.h"
#include "trainer/checkpoint/memory_file_system.h"

namespace ddprun::sim {

class Simulation;

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
  // `stuck`: the disk does not answer this process now, or it stands still. `fails`: a number of
  // errno's, or 0.
  ProcessFiles(Simulation& simulation, Disk& disk, std::function<bool()> stuck,
               std::function<int()> fails);

  // `with_power`: nothing of it happens any more. Else its last operation may.
  void Kill(bool with_power);
  bool dead() const { return killed_; }
  // How often it was kept from going on for long; and whether it is so now.
  std::uint64_t hindered() const { return hindered_; }
  // How many of its operations failed.
  std::uint64_t failed() const { return failed_; }
  bool held() const { return held_ > 0 || stuck_(); }

  Result<std::vector<std::string>> List(const std::filesystem::path& directory) override;
  Result<std::string> Read(const std::filesystem::path& path, std::size_t max_bytes) override;
  Result<DigestedBytes> ReadDigested(const std::filesystem::path& path,
                                     std::size_t max_bytes) override;
  Result<std::uint64_t> Write(const std::filesystem::path& path,
                              const std::vector<std::string_view>& parts) override;
  Result<void> Sync(const std::filesystem::path& path) override;
  Result<bool> Link(const std::filesystem::path& existing,
                    const std::filesystem::path& name) override;
  Result<void> Rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  Result<void> MakeDirectory(const std::filesystem::path& path) override;
  Result<void> Remove(const std::filesystem::path& path) override;
  Result<std::uint64_t> FreeBytes(const std::filesystem::path& directory) override;

 private:
  // Each operation: it may take any time, and never return, or fail half done.
  void Begin(bool writes);
  void HoldUp(Duration duration);
  void OnChanged(const std::filesystem::path& path);
  // Of the directory, if this process is shown an old one; never older than one it has seen.
  const Disk::Listing* OldListing();

  Simulation& simulation_;
  Disk& disk_;
  const std::function<bool()> stuck_;
  const std::function<int()> fails_;
  bool killed_ = false;
  bool last_lands_ = false;
  std::uint64_t hindered_ = 0;
  std::uint64_t failed_ = 0;
  int held_ = 0;  // Fibers of it that are.
  Time seen_;     // What was so then, or later, is what this process sees.
};

}  // namespace ddprun::sim

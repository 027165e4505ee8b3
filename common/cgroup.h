// Where the kernel shows the limits of this process's control groups, and how many CPUs they leave
// it.
//
// Version 1 has a tree for each controller, version 2 one for all; both may be mounted, and a
// container sees a part of a tree. Reads files of /proc and /sys alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct Cgroup {
  std::filesystem::path folder;  // This process's.
  std::filesystem::path top;     // The mount that it lies in: the folders between limit it too.
  bool unified = false;          // Version 2.
};

// Of a controller ("memory", "cpu"), from the texts of /proc/self/cgroup and /proc/self/mountinfo:
// version 1 where it has the controller, else version 2. None: it is not shown.
std::optional<Cgroup> FindCgroup(std::string_view membership, std::string_view mounts,
                                 std::string_view controller);
// This process's.
std::optional<Cgroup> OwnCgroup(std::string_view controller);

// The folder, and those above it that limit it too.
std::vector<std::filesystem::path> FoldersOf(const Cgroup& cgroup);

// The number in a file; none: it has a word instead, such as "max".
std::optional<std::uint64_t> NumberIn(const std::filesystem::path& file);
// The number after this word in a file of "word number" lines; none: it is not there.
std::optional<std::uint64_t> NumberAfter(const std::filesystem::path& file,
                                         const std::string& word);

// CPUs that the quotas of `cgroup` and of those above it allow at a time: the smallest of them,
// such as 2.5. None: there is no quota.
std::optional<double> CpuQuota(const Cgroup& cgroup);

// The smaller of `cpus` and this process's quota, as a whole number of at least 1: parts of a CPU
// are dropped.
std::size_t WithinCpuQuota(std::size_t cpus);

}  // namespace ddprun

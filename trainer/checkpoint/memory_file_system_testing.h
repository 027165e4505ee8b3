// A file system in memory for tests: it knows what a power cut would take, and can fail or "kill
// the process" at any operation. Copying it copies the disk.
#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/file_system.h"

namespace ddprun {

class MemoryFileSystem : public FileSystem {
 public:
  enum class PowerCut { kNone, kLosesAllUnsynced, kLosesSome };

  MemoryFileSystem() { nodes_[kRoot].directory = true; }

  int operations = 0;
  int kill_at = 0;  // At this operation, and for good: it is half done (a write) or not at all.
  int fail_at = 0;  // This operation alone fails with fail_with, a write half done.
  int fail_with = ENOSPC;
  std::uint64_t free_bytes = 1 << 30;
  // Called before each operation; may use the file system itself.
  std::function<void(std::string_view operation, const std::filesystem::path&)> before;

  // The files that a new process finds after this one was killed, and perhaps the power with it.
  void Restart(PowerCut cut, unsigned seed) {
    kill_at = fail_at = operations = 0;
    std::mt19937 random(seed);
    const auto lost = [&] {
      return cut == PowerCut::kLosesAllUnsynced ||
             (cut == PowerCut::kLosesSome && random() % 2 == 0);
    };
    for (auto& [id, node] : nodes_) {
      if (lost()) {
        node.bytes = node.durable_bytes;
      }
      LoseNames(node, lost);
    }
  }

  void Flip(const std::filesystem::path& path, std::size_t index) {
    std::string& bytes = nodes_.at(Find(path).value()).bytes;
    bytes.at(index) = static_cast<char>(bytes.at(index) ^ 1);
  }
  std::size_t SizeOf(const std::filesystem::path& path) {
    return nodes_.at(Find(path).value()).bytes.size();
  }
  bool Exists(const std::filesystem::path& path) const { return Find(path).has_value(); }

  Result<std::vector<std::string>> List(const std::filesystem::path& directory) override {
    RETURN_IF_ERROR(Begin("list", directory));
    ASSIGN_OR_RETURN(const int id, Get("list", directory));
    std::vector<std::string> names;
    for (const auto& [name, child] : nodes_[id].names) {
      names.push_back(name);
    }
    return names;
  }
  Result<std::string> Read(const std::filesystem::path& path, std::size_t max_bytes) override {
    RETURN_IF_ERROR(Begin("read", path));
    ASSIGN_OR_RETURN(const int id, Get("read", path));
    if (nodes_[id].bytes.size() > max_bytes) {
      return Invalid("too large", path.native());
    }
    return nodes_[id].bytes;
  }
  Result<DigestedBytes> ReadDigested(const std::filesystem::path& path,
                                     std::size_t max_bytes) override {
    ASSIGN_OR_RETURN(const std::string bytes, Read(path, max_bytes));
    return DigestedBytes{bytes, Digest(bytes)};
  }
  Result<std::uint64_t> Write(const std::filesystem::path& path,
                              const std::vector<std::string_view>& parts) override {
    const Result<void> begun = Begin("write", path);
    ASSIGN_OR_RETURN(const int parent, Get("write", path.parent_path()));
    std::string bytes;
    for (const std::string_view part : parts) {
      bytes += part;
    }
    if (!begun && dead_before_) {
      return begun.error();
    }
    Node node;
    node.bytes = begun ? bytes : bytes.substr(0, bytes.size() / 2);
    nodes_[++last_id_] = node;
    nodes_[parent].names[path.filename()] = last_id_;
    if (!begun) {
      return begun.error();
    }
    return Digest(bytes);
  }
  Result<void> Sync(const std::filesystem::path& path) override {
    RETURN_IF_ERROR(Begin("sync", path));
    ASSIGN_OR_RETURN(const int id, Get("sync", path));
    nodes_[id].durable_bytes = nodes_[id].bytes;
    nodes_[id].durable_names = nodes_[id].names;
    return {};
  }
  Result<bool> Link(const std::filesystem::path& existing,
                    const std::filesystem::path& name) override {
    RETURN_IF_ERROR(Begin("link", name));
    ASSIGN_OR_RETURN(const int id, Get("link", existing));
    ASSIGN_OR_RETURN(const int parent, Get("link", name.parent_path()));
    return nodes_[parent].names.emplace(name.filename(), id).second;
  }
  Result<void> Rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    RETURN_IF_ERROR(Begin("rename", from));
    ASSIGN_OR_RETURN(const int id, Get("rename", from));
    ASSIGN_OR_RETURN(const int parent, Get("rename", to.parent_path()));
    CHECK(from.parent_path() == to.parent_path());
    nodes_[parent].names.erase(from.filename());
    nodes_[parent].names[to.filename()] = id;
    return {};
  }
  Result<void> MakeDirectory(const std::filesystem::path& path) override {
    RETURN_IF_ERROR(Begin("mkdir", path));
    int at = kRoot;
    for (const auto& part : path.relative_path()) {
      const auto found = nodes_[at].names.find(part);
      if (found != nodes_[at].names.end()) {
        at = found->second;
        continue;
      }
      nodes_[++last_id_].directory = true;
      nodes_[at].names[part] = last_id_;
      at = last_id_;
    }
    return {};
  }
  Result<void> Remove(const std::filesystem::path& path) override {
    RETURN_IF_ERROR(Begin("remove", path));
    if (const std::optional<int> parent = Find(path.parent_path())) {
      nodes_[*parent].names.erase(path.filename());
    }
    return {};
  }
  Result<std::uint64_t> FreeBytes(const std::filesystem::path& directory) override {
    RETURN_IF_ERROR(Begin("free", directory));
    return free_bytes;
  }

 private:
  static constexpr int kRoot = 0;
  struct Node {
    bool directory = false;
    std::string bytes, durable_bytes;
    std::map<std::string, int> names, durable_names;
  };

  static bool Holds(const std::map<std::string, int>& names, int id) {
    return std::any_of(names.begin(), names.end(),
                       [id](const auto& entry) { return entry.second == id; });
  }
  // Each unsynced change of a directory by itself; a rename is one change, as journals have it.
  static void LoseNames(Node& node, const std::function<bool()>& lost) {
    const std::map<std::string, int> now = node.names;
    for (const auto& [name, id] : now) {
      const auto before_now = node.durable_names.find(name);
      const bool changed = before_now == node.durable_names.end() || before_now->second != id;
      if (changed && lost()) {
        node.names.erase(name);
        for (const auto& [old_name, old_id] : node.durable_names) {
          if (old_name == name || (old_id == id && now.count(old_name) == 0)) {
            node.names[old_name] = old_id;
          }
        }
      }
    }
    for (const auto& [name, id] : node.durable_names) {
      if (now.count(name) == 0 && !Holds(now, id) && lost()) {
        node.names[name] = id;
      }
    }
  }

  Result<void> Begin(std::string_view operation, const std::filesystem::path& path) {
    if (before) {
      const auto hook = std::exchange(before, nullptr);  // Not for the operations of the hook.
      hook(operation, path);
      before = hook;
    }
    ++operations;
    dead_before_ = kill_at != 0 && operations > kill_at;
    if (kill_at != 0 && operations >= kill_at) {
      return Error{ErrorKind::kSystem, "killed"};
    }
    if (operations == fail_at) {
      return SystemError(operation, path.native(), fail_with);
    }
    return {};
  }
  std::optional<int> Find(const std::filesystem::path& path) const {
    int at = kRoot;
    for (const auto& part : path.relative_path()) {
      const auto found = nodes_.at(at).names.find(part);
      if (found == nodes_.at(at).names.end()) {
        return std::nullopt;
      }
      at = found->second;
    }
    return at;
  }
  Result<int> Get(std::string_view operation, const std::filesystem::path& path) const {
    const std::optional<int> id = Find(path);
    if (!id) {
      Error error = SystemError(operation, path.native(), ENOENT);
      error.kind = ErrorKind::kNotFound;
      return error;
    }
    return *id;
  }

  std::map<int, Node> nodes_;
  int last_id_ = kRoot;
  bool dead_before_ = false;
};

}  // namespace ddprun

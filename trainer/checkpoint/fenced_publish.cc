#include "trainer/checkpoint/fenced_publish.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/files.h"
#include "trainer/checkpoint/fence_log.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kKeepVersions = 3;  // So that a reader of the last one can finish.
constexpr int kMostRounds = 1000;

fs::path StoreOf(const fs::path& target) {
  return target.parent_path() / ("." + target.filename().native() + ".published");
}

// With it a link is taken for what it leads to.
fs::path WithoutSlash(const fs::path& path) {
  return path.has_filename() || path == path.root_path() ? path : path.parent_path();
}

bool EndsInName(const fs::path& path) {
  return path.has_filename() && path.filename() != "." && path.filename() != "..";
}

fs::path Real(const fs::path& path) {
  std::error_code code;
  return fs::weakly_canonical(fs::absolute(path, code), code);
}

bool IsIn(const fs::path& path, const fs::path& directory) {
  const fs::path inside = path.lexically_relative(directory);
  return !inside.empty() && *inside.begin() != "..";
}

class Publisher {
 public:
  Publisher(FileSystem& files, const PublishRequest& request)
      : files_(files),
        source_(WithoutSlash(request.source)),
        target_(request.target),
        writer_(request.writer),
        before_(request.before),
        store_(StoreOf(request.target)),
        log_(files, store_) {}

  Result<Published> Publish() {
    RETURN_IF_ERROR(CheckPaths());
    RETURN_IF_ERROR(SyncAll());
    RETURN_IF_ERROR(files_.MakeDirectory(store_));
    Before("claim");
    std::vector<std::string> warnings;
    const Liveness nobody{[](const FenceRecord&) { return Result<bool>(false); }, [] {}};
    ASSIGN_OR_RETURN(const FenceRecord mine, log_.Claim(writer_, nobody, warnings));
    ASSIGN_OR_RETURN(const std::string name, Move(mine.number + 1));
    Before("commit");
    std::vector<CheckpointRef> lineage = mine.lineage;
    lineage.insert(lineage.begin(), CheckpointRef{name, 0});  // Versions are not digested.
    lineage.resize(std::min(lineage.size(), kKeepVersions));
    ASSIGN_OR_RETURN(const FenceRecord commit, log_.Commit(writer_, lineage));
    ASSIGN_OR_RETURN(const FenceRecord newest, Follow());
    Before("prune");
    Prune(mine);
    return Published{store_ / name, commit.number, newest.lineage.front().directory != name};
  }

 private:
  void Before(const std::string& next) const {
    if (before_) {
      before_(next);
    }
  }

  Result<void> CheckPaths() const {
    std::error_code code;
    const fs::file_status source = fs::symlink_status(source_, code);
    if (!fs::exists(source)) {
      return Invalid("NEW does not exist", source_.native());
    }
    if (!EndsInName(source_)) {
      return Invalid("NEW must end in a name", source_.native());
    }
    if (fs::is_symlink(source)) {  // Moved into the store it may lead nowhere.
      return Invalid(
          "NEW is a symbolic link: publish the file or directory that it points to, or a copy",
          source_.native());
    }
    if (!fs::is_regular_file(source) && !fs::is_directory(source)) {
      return Invalid("NEW is neither a file nor a directory", source_.native());
    }
    if (IsKeptByName()) {  // Its readers, or its training, would lose it.
      return Invalid(
          "NEW is published already, or is a checkpoint from which a training continues: publish a "
          "copy of it",
          source_.native());
    }
    if (!EndsInName(target_)) {
      return Invalid("FINAL must end in a name", target_.native());
    }
    if (IsIn(Real(store_), Real(source_))) {
      return Invalid("FINAL lies inside NEW", target_.native());
    }
    const fs::file_status status = fs::symlink_status(target_, code);
    if (fs::is_symlink(status)) {
      const fs::path to = fs::read_symlink(target_, code);
      if (to.parent_path() == store_.filename()) {
        return {};
      }
      return Invalid("'" + target_.native() +
                         "' is a link that ddprun publish did not make: move it away; it points to",
                     to.native());
    }
    if (fs::exists(status)) {
      return Invalid("ddprun publish replaces only what it published: move it away",
                     target_.native());
    }
    return {};
  }

  // A version or a checkpoint of whatever directory, or a part of one.
  bool IsKeptByName() const {
    const fs::path source = Real(source_);
    if (IsIn(source, Real(store_))) {
      return true;
    }
    for (fs::path path = source; path.has_relative_path(); path = path.parent_path()) {
      std::vector<std::string> warnings;
      if (IsCheckpointName(path.filename().native())) {
        const auto newest = FenceLog(files_, path.parent_path()).Newest(warnings);
        return newest && newest->has_value();
      }
    }
    return false;
  }

  Result<void> SyncAll() const {
    RETURN_IF_ERROR(files_.Sync(source_));
    std::error_code code;
    if (!fs::is_directory(fs::symlink_status(source_, code))) {
      return {};
    }
    fs::recursive_directory_iterator entry(source_, code);
    for (const fs::recursive_directory_iterator end; !code && entry != end; entry.increment(code)) {
      const fs::file_status status = entry->symlink_status(code);
      if (fs::is_regular_file(status) || fs::is_directory(status)) {
        RETURN_IF_ERROR(files_.Sync(entry->path()));
      }
    }
    if (code) {
      return Error{ErrorKind::kSystem, "cannot read '" + source_.native() + "': " + code.message()};
    }
    return {};
  }

  // The name of the version.
  Result<std::string> Move(std::uint64_t number) {
    // Ranks of one world may publish at once, on many machines.
    const std::string name =
        CheckpointName({number, writer_.world_id}) + "." + std::to_string(RandomBits() >> 32);
    Before("move");
    RETURN_IF_ERROR(files_.Rename(source_, store_ / name));
    RETURN_IF_ERROR(files_.Sync(store_));
    return name;
  }

  // The link to the newest committed version, also when that is not mine any more.
  Result<FenceRecord> Follow() {
    for (int round = 0; round < kMostRounds; ++round) {
      std::vector<std::string> warnings;
      ASSIGN_OR_RETURN(const std::optional<FenceRecord> newest, log_.Newest(warnings));
      if (!newest || newest->lineage.empty()) {
        return Error{ErrorKind::kSystem, "the records in '" + store_.native() +
                                             "' are gone: was it emptied meanwhile?"};
      }
      const fs::path wanted = store_.filename() / newest->lineage.front().directory;
      std::error_code code;
      if (fs::read_symlink(target_, code) == wanted && !code) {
        return *newest;
      }
      Before("link");
      const fs::path temporary = store_ / (".link-" + Hex(writer_.world_id.value));
      fs::remove(temporary, code);
      fs::create_symlink(wanted, temporary, code);
      if (code && code != std::errc::file_exists) {  // Another rank of this world made it.
        return Error{ErrorKind::kSystem,
                     "cannot make the link '" + temporary.native() + "': " + code.message()};
      }
      const Result<void> renamed = files_.Rename(temporary, target_);
      if (!renamed && renamed.error().kind != ErrorKind::kNotFound) {
        return renamed.error();
      }
      const fs::path parent = target_.parent_path();
      RETURN_IF_ERROR(files_.Sync(parent.empty() ? fs::path(".") : parent));
    }
    return Error{ErrorKind::kUnavailable,
                 "other processes keep publishing '" + target_.native() + "'"};
  }

  // Versions that fell out of the lineage, and what worlds before this one left without a commit.
  // Only those of numbers before mine, since a newer world may publish at any moment.
  void Prune(const FenceRecord& claim) {
    const Result<std::vector<std::string>> names = files_.List(store_);
    for (const std::string& name : names ? *names : std::vector<std::string>{}) {
      const std::optional<MadeBy> made = WhoMade(name);
      if (!made || made->step > claim.number) {
        continue;
      }
      const auto index = static_cast<std::size_t>(
          std::ranges::find(claim.lineage, name, &CheckpointRef::directory) -
          claim.lineage.begin());  // Its size where it is not in it.
      // Of mine that are not committed a peer may be at work on one.
      const bool unwanted = index < claim.lineage.size() ? index + 1 >= kKeepVersions
                                                         : made->world != writer_.world_id;
      if (unwanted) {
        (void)files_.Remove(store_ / name);  // Room only.
      }
    }
    log_.Prune();
  }

  FileSystem& files_;
  const fs::path source_;
  const fs::path target_;
  const Writer writer_;
  const std::function<void(const std::string&)> before_;
  const fs::path store_;
  FenceLog log_;
};

}  // namespace

Result<Published> PublishFenced(FileSystem& files, const PublishRequest& request) {
  return Publisher(files, request).Publish();
}

}  // namespace ddprun

#include "launcher/evidence/run_archive.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/watch/evidence_bundle.h"
#include "common/files.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/evidence/report_file.h"
#include "launcher/evidence/run_bundle.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kOwnFiles{kReportFile, "failure.json", "events.jsonl",
                                                    "events.1.jsonl"};
constexpr std::array<std::string_view, 6> kWorkerFiles{
    "stdout.log", "stderr.log",          "error.json",
    "stacks.txt", "filtered_stdout.log", "filtered_stderr.log"};
constexpr std::size_t kMostEntries = 200'000;  // Looked at, of one directory.
constexpr std::size_t kMostNamed = 1'000;      // Of what is left out.

struct Finding {
  std::size_t directory = 0;
  std::string below;  // Its name there.
  std::uint64_t size = 0;
  std::int64_t mtime = 0;
  bool log = false;
};

// evidence-<generation>/ and what ddprun puts there (agent/watch/evidence_bundle.h).
bool IsBundle(std::string_view name) {
  const std::string_view prefix = kBundlePrefix;
  return name.starts_with(prefix) && IsDigits(name.substr(prefix.size()));
}

bool IsOfBundle(const std::string& name) {
  const bool of_rank = name.starts_with("rank-") &&
                       (name.ends_with(".stacks.txt") || name.ends_with(".collectives.json") ||
                        name.ends_with(".lines.txt"));
  return AsFileName(name) == name &&
         (name == "verdict.txt" || name == kStateFile || name == "events.jsonl" || of_rank ||
          (name.starts_with("node-") && name.ends_with(".txt")));
}

class Gatherer {
 public:
  Gatherer(const ArchiveContents& contents, const ArchiveBounds& bounds)
      : contents_(contents), bounds_(bounds) {}

  Result<void> Look() {
    for (std::size_t i = 0; i < contents_.directories.size(); ++i) {
      const fs::path& path = contents_.directories[i];
      UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC));
      if (!root) {
        return Error{ErrorKind::kInvalid, "'" + path.native() +
                                              "' is not the directory of a run: " +
                                              std::generic_category().message(errno)};
      }
      roots_.push_back(std::move(root));
      Walk(i, "", roots_.back().get());
    }
    std::ranges::stable_sort(found_, {}, [](const Finding& one) { return one.log; });
    return {};
  }

  Result<Archived> Pack(TarGz& archive) {
    for (const MadeFile& made : contents_.made) {
      RETURN_IF_ERROR(
          archive.Add(contents_.root + "/" + made.name, made.bytes, contents_.unix_time));
      Packed(made.name, made.bytes.size(), made.bytes.size(), ", made for this archive");
    }
    const std::uint64_t share = Share();
    for (const Finding& one : found_) {
      RETURN_IF_ERROR(PackOne(one, one.log ? share : bounds_.file, archive));
    }
    RETURN_IF_ERROR(archive.Add(contents_.root + "/MANIFEST", Manifest(), contents_.unix_time));
    return packed_;
  }

 private:
  std::string NameOf(std::size_t directory, const std::string& below) const {
    if (contents_.directories.size() == 1) {
      return below;
    }
    const fs::path& path = contents_.directories[directory];
    const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
    return std::to_string(directory) + "-" + AsFileName(last.native()) + "/" + below;
  }

  void LeaveOut(const std::string& name, const std::string& why) {
    if (++packed_.left_out <= kMostNamed) {
      left_out_ += Printable(name) + ": " + why + "\n";
    }
  }

  void Packed(const std::string& name, std::uint64_t size, std::uint64_t whole,
              const std::string& how) {
    ++packed_.files;
    packed_.bytes += size;
    inside_ += name + ": " +
               (size < whole ? "the last " + std::to_string(size) + " of " + std::to_string(whole)
                             : std::to_string(size)) +
               " bytes" + how + "\n";
  }

  // `below`: the directory's own name; with a slash behind it, where it is none of the roots.
  void Walk(std::size_t directory, const std::string& below, int fd) {
    const int own = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // closedir closes it.
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(own < 0 ? nullptr : ::fdopendir(own),
                                                     ::closedir);
    if (!stream) {
      LeaveOut(NameOf(directory, below), "cannot be read");
      return;
    }
    std::set<std::string> names;  // In an order of its own.
    while (const dirent* const entry = ::readdir(stream.get())) {
      if (++entries_ > kMostEntries) {
        LeaveOut(NameOf(directory, below), "it has too many entries");
        break;
      }
      names.insert(entry->d_name);
    }
    for (const std::string& name : names) {
      if (name != "." && name != "..") {
        Take(directory, below, name, fd);
      }
    }
  }

  void Take(std::size_t directory, const std::string& below, const std::string& name, int fd) {
    const std::string full = below + name;
    struct stat info {};
    if (::fstatat(fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return;  // It has gone meanwhile.
    }
    const std::size_t depth = static_cast<std::size_t>(std::ranges::count(below, '/'));
    if (S_ISDIR(info.st_mode) &&
        (depth == 0 ? (name.starts_with("attempt_") && AsFileName(name) == name) || IsBundle(name)
                    : depth == 1 && IsDigits(name))) {
      const UniqueFd inner(
          ::openat(fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      inner ? Walk(directory, full + "/", inner.get())
            : LeaveOut(NameOf(directory, full), "cannot be read");
      return;
    }
    const bool ours = depth == 0 ? std::ranges::find(kOwnFiles, name) != kOwnFiles.end()
                      : below.starts_with(kBundlePrefix)
                          ? IsOfBundle(name)
                          : std::ranges::find(kWorkerFiles, name) != kWorkerFiles.end();
    if (!S_ISREG(info.st_mode)) {
      LeaveOut(NameOf(directory, full), "not an ordinary file");
    } else if (!ours) {
      LeaveOut(NameOf(directory, full), "not one of ddprun's files");
    } else if (std::ranges::find(contents_.made, NameOf(directory, full), &MadeFile::name) !=
               contents_.made.end()) {
      LeaveOut(NameOf(directory, full), "replaced by a newer one");
    } else if (found_.size() >= bounds_.files) {
      LeaveOut(NameOf(directory, full), "the limit of files is reached");
    } else {
      found_.push_back({directory, full, static_cast<std::uint64_t>(info.st_size),
                        info.st_mtim.tv_sec, depth > 0});
    }
  }

  // The most bytes of each log, by the room that is left for all of them: none takes another's.
  std::uint64_t Share() const {
    std::uint64_t left = bounds_.all;
    std::vector<std::uint64_t> sizes;
    for (const MadeFile& made : contents_.made) {
      left -= std::min<std::uint64_t>(left, made.bytes.size());
    }
    for (const Finding& one : found_) {
      const std::uint64_t most = std::min(one.size, bounds_.file);
      one.log ? sizes.push_back(most) : void(left -= std::min(left, most));
    }
    std::ranges::sort(sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::uint64_t even = left / (sizes.size() - i);
      if (sizes[i] > even) {
        return even;
      }
      left -= sizes[i];
    }
    return bounds_.file;
  }

  // Its end, as it is now; nullopt: it cannot be read, or is no ordinary file any more.
  std::optional<std::string> EndOf(const Finding& one, std::uint64_t most, std::uint64_t& whole) {
    UniqueFd folder(::openat(roots_[one.directory].get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::size_t at = 0;
    for (std::size_t end; (end = one.below.find('/', at)) != std::string::npos; at = end + 1) {
      folder = UniqueFd(::openat(folder.get(), one.below.substr(at, end - at).c_str(),
                                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    }
    const UniqueFd fd(::openat(folder.get(), one.below.c_str() + at,
                               O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      return std::nullopt;
    }
    whole = static_cast<std::uint64_t>(info.st_size);
    std::string bytes(std::min(whole, most), '\0');
    std::size_t got = 0;
    while (got < bytes.size()) {
      const ssize_t more = ::pread(fd.get(), bytes.data() + got, bytes.size() - got,
                                   static_cast<off_t>(whole - bytes.size() + got));
      if (more < 0 && errno == EINTR) {
        continue;
      }
      if (more < 0) {
        return std::nullopt;
      }
      if (more == 0) {
        break;  // It was made shorter.
      }
      got += static_cast<std::size_t>(more);
    }
    bytes.resize(got);
    return bytes;
  }

  Result<void> PackOne(const Finding& one, std::uint64_t most, TarGz& archive) {
    const std::string name = NameOf(one.directory, one.below);
    most = std::min(most, bounds_.all - std::min(bounds_.all, packed_.bytes));
    if (most == 0 && one.size > 0) {
      LeaveOut(name, "the limit of bytes is reached");
      return {};
    }
    std::uint64_t whole = 0;
    const std::optional<std::string> bytes = EndOf(one, most, whole);
    if (!bytes) {
      LeaveOut(name, "cannot be read");
      return {};
    }
    RETURN_IF_ERROR(archive.Add(contents_.root + "/" + name, *bytes, one.mtime));
    Packed(name, bytes->size(), std::max<std::uint64_t>(whole, bytes->size()), "");
    return {};
  }

  std::string Manifest() const {
    std::string text = "Packed by ddprun " DDPRUN_VERSION " at " +
                       std::to_string(contents_.unix_time) + " (seconds since 1970)";
    for (std::size_t i = 0; i < contents_.directories.size(); ++i) {
      text += (i == 0 ? ", of " : " and ") + Printable(contents_.directories[i].native());
    }
    text += "\n";
    for (const std::string& remark : contents_.remarks) {
      text += Printable(remark) + "\n";
    }
    text += "\nIn this archive:\n" + inside_ + "\nNot in it:\n" +
            (left_out_.empty() ? "nothing\n" : left_out_);
    if (packed_.left_out > kMostNamed) {
      text += "and " + std::to_string(packed_.left_out - kMostNamed) + " more\n";
    }
    return text;
  }

  const ArchiveContents& contents_;
  const ArchiveBounds bounds_;
  std::vector<UniqueFd> roots_;
  std::vector<Finding> found_;
  std::size_t entries_ = 0;
  Archived packed_;
  std::string inside_;
  std::string left_out_;
};

}  // namespace

Result<Archived> ArchiveRun(const ArchiveContents& contents, TarGz& archive,
                            const ArchiveBounds& bounds) {
  Gatherer gatherer(contents, bounds);
  RETURN_IF_ERROR(gatherer.Look());
  return gatherer.Pack(archive);
}

}  // namespace ddprun

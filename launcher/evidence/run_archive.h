// The files of a run, packed into one archive: those that ddprun itself leaves in a run's
// directory, and no others.
//
//   <root>/report.html ...            what was made just now
//   <root>/[<directory>/]events.jsonl ...  kOwnFiles of the directory
//   <root>/[<directory>/]evidence-4/...         all of a bundle
//   <root>/[<directory>/]attempt_0/3/stderr.log   and what else a worker's directory has of
//   ddprun's <root>/MANIFEST                   what is in it, what is not, and why
//
// Never a token, a key, or any file that has no name of ddprun's own; never opened: a FIFO, a link,
// a socket, a device. Bounded: of each file its end, of all logs equal shares of the rest, and so
// many files. A file that grows meanwhile is packed as it was when it was its turn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.h"
#include "launcher/evidence/tar_gz.h"

namespace ddprun {

struct ArchiveBounds {
  std::uint64_t file = std::uint64_t{16} << 20;
  std::uint64_t all = std::uint64_t{256} << 20;
  std::size_t files = 20'000;
};

struct MadeFile {
  std::string name;
  std::string bytes;
};

struct ArchiveContents {
  std::string root;
  std::vector<std::filesystem::path> directories;  // Of several, each has its name in the archive.
  std::vector<MadeFile> made;                      // In place of a directory's file of that name.
  std::vector<std::string> remarks;                // For the manifest.
  std::int64_t unix_time = 0;
};

struct Archived {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  std::size_t left_out = 0;
};

// kInvalid: a directory is none. Any other error: the archive cannot be written.
Result<Archived> ArchiveRun(const ArchiveContents& contents, TarGz& archive,
                            const ArchiveBounds& bounds);

}  // namespace ddprun

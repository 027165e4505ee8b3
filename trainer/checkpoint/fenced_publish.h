// A result made visible under a fixed name by one world only: the newest that published it.
//
//   FINAL                        a symbolic link to the newest committed version
//   .FINAL.published/fence-<n>   the log that decides (fence_log.h)
//   .FINAL.published/step-<n>-<world id>.<k>   versions: what was given, moved here
//
// The commit record is what counts; the link follows it, and whoever moved it looks again
// afterwards. So a world that was replaced, wherever it stood still and for however long, is
// refused or leaves the newer version in place. It never waits for another process: another run's
// version is replaced too, whether that run lives or not. Only a process killed between its commit
// and its link leaves the link at the version before, until the next publishing.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "common/result.h"
#include "trainer/checkpoint/fence_record.h"
#include "trainer/checkpoint/file_system.h"

namespace ddprun {

struct PublishRequest {
  std::filesystem::path source;  // A file or a directory, on the target's file system. Moved.
  std::filesystem::path target;  // Absent, or published before.
  Writer writer;
  std::function<void(const std::string& next)> before;  // For tests: each visible operation.
};

struct Published {
  std::filesystem::path version;
  std::uint64_t record = 0;
  bool replaced = false;  // By a newer one, meanwhile.
};

// kRefused: a newer world has published or may; nothing was replaced. kInvalid: the request makes
// no sense. Unless it is refused at the commit, a source that could not be published stays.
Result<Published> PublishFenced(FileSystem& files, const PublishRequest& request);

}  // namespace ddprun

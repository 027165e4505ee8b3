#include "launcher/shared_token.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "common/files.h"
#include "rendezvous/control_token.h"

namespace ddprun {

Result<std::string> ShareToken(const std::filesystem::path& run_dir, const RunId& run_id) {
  const std::string path = (run_dir / ("token-" + run_id)).native();
  if (::access(path.c_str(), F_OK) == 0) {
    return path;
  }
  RETURN_IF_ERROR(MakeDirectories(run_dir, 0700));
  std::string temporary = (run_dir / ".token-XXXXXX").native();
  const UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));  // Mode 0600.
  if (!file) {
    return SystemError("make a file for the run's token", temporary, errno);
  }
  Result<void> written = WriteAll(file.get(), DrawToken() + "\n", temporary);
  if (written && ::fsync(file.get()) != 0) {
    written = SystemError("write the run's token to", temporary, errno);
  }
  if (written && ::link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    written = SystemError("give the run's token its name", path, errno);
  }
  ::unlink(temporary.c_str());
  RETURN_IF_ERROR(written);
  return path;
}

}  // namespace ddprun

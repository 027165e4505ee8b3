#include "launcher/hosts/host_copies.h"

#include <openssl/evp.h>

#include <array>
#include <filesystem>
#include <utility>

#include "common/files.h"
#include "common/ids.h"
#include "launcher/hosts/node_front.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCopy = 256 << 20;

// One line of POSIX's sh, as other shells have to pass it on. A copy that is whole is never
// replaced: hosts may share the home directory, and one of them may run it already.
constexpr const char* kTakeCopies =
    "same() { test -f \"$1\" && test \"$(sha256sum <\"$1\" | cut -c1-64)\" = \"$2\"; }; "
    "take() { ddprun_file=$2; same \"$2\" \"$3\" && return; "
    "ddprun_kept=${HOME:?}/.cache/ddprun/copies/$3; ddprun_file=$ddprun_kept/${2##*/}; "
    "same \"$ddprun_file\" \"$3\" && return; "
    "(umask 077; mkdir -p \"$ddprun_kept\") && ddprun_new=$(mktemp \"$ddprun_kept/XXXXXX\") "
    "|| exit 1; "
    "printf \"\\036ddprun lacks %s\\036\" \"$1\"; head -c \"$4\" >\"$ddprun_new\"; "
    "same \"$ddprun_new\" \"$3\" && chmod 700 \"$ddprun_new\" && "
    "{ ln \"$ddprun_new\" \"$ddprun_file\" 2>/dev/null || same \"$ddprun_file\" \"$3\" || "
    "mv -f \"$ddprun_new\" \"$ddprun_file\"; }; "
    "rm -f \"$ddprun_new\"; same \"$ddprun_file\" \"$3\" && return; "
    "echo \"cannot keep a copy of $2 as $ddprun_file (--copy)\" >&2; exit 1; }; "
    "take 0 \"$2\" \"$3\" \"$4\"; ddprun_itself=$ddprun_file; ddprun_copy=; "
    "if test $# -gt 4; then take 1 \"$5\" \"$6\" \"$7\"; "
    "test \"$ddprun_file\" = \"$5\" || ddprun_copy=$ddprun_file; fi; "
    "exec \"$ddprun_itself\" \"$1\" \"$ddprun_copy\"";

std::string Sha256(const std::string& bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return Hex({digest.data(), size});
}

Result<HostCopy> ReadCopy(const fs::path& path, const fs::path& from) {
  Result<std::string> bytes = ReadFile(from, kMaxCopy);
  if (!bytes) {
    return Error{bytes.error().kind, bytes.error().message + " (--copy)"};
  }
  std::string hash = Sha256(*bytes);
  return HostCopy{path.native(), std::move(hash),
                  std::make_shared<const std::string>(std::move(*bytes))};
}

// Else it is a module, or found in the PATH of each host.
bool IsFile(const LaunchConfig& config) {
  const fs::path program(config.program);
  const bool script = config.run_path || (program.extension() == ".py" && !config.no_python);
  return !config.module && (script || program.has_parent_path());
}

}  // namespace

Result<std::vector<HostCopy>> FindCopies(const LaunchConfig& config, const std::string& ddprun) {
  std::vector<HostCopy> copies;
  ASSIGN_OR_RETURN(copies.emplace_back(), ReadCopy(ddprun, "/proc/self/exe"));
  if (IsFile(config)) {
    std::error_code error;
    const fs::path program = fs::absolute(config.program, error);
    ASSIGN_OR_RETURN(copies.emplace_back(), ReadCopy(program, program));
  }
  return copies;
}

std::string Describe(const HostCopy& copy) {
  constexpr std::size_t kKilo = 1'000;
  const std::size_t kilobytes = (copy.bytes->size() + kKilo - 1) / kKilo;
  const std::string size = kilobytes < 10 * kKilo ? std::to_string(kilobytes) + " kB"
                                                  : std::to_string(kilobytes / kKilo) + " MB";
  return fs::path(copy.path).filename().native() + " (" + size + ")";
}

std::vector<std::string> CommandWithCopies(const std::vector<HostCopy>& copies) {
  std::vector<std::string> words = {"sh", "-c", kTakeCopies, "ddprun", kOrderOnStdin};
  for (const HostCopy& copy : copies) {
    words.insert(words.end(), {copy.path, copy.hash, std::to_string(copy.bytes->size())});
  }
  return words;
}

}  // namespace ddprun

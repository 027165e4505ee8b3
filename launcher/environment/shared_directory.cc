#include "launcher/environment/shared_directory.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::array<std::string_view, 8> kSharedTypes = {"nfs",    "nfs4",  "lustre", "gpfs",
                                                          "beegfs", "fhgfs", "ceph",   "wekafs"};

bool LiesIn(const std::string& directory, const std::string& place) {
  return place == "/" || directory == place ||
         (directory.starts_with(place) && directory[place.size()] == '/');
}

}  // namespace

// "36 35 0:32 /root /mount/point rw,relatime ... - nfs4 server:/export rw": the deepest place that
// the directory lies in, and the last one that was mounted there.
bool IsShared(const std::filesystem::path& directory, std::string_view mounts) {
  std::string deepest;
  bool shared = false;
  for (const std::string& line : Split(mounts, '\n')) {
    std::istringstream words(line);
    std::string place;
    for (int i = 0; i < 5; ++i) {
      words >> place;
    }
    for (const auto& [escaped, character] :
         {std::pair("\\040", " "), {"\\011", "\t"}, {"\\012", "\n"}, {"\\134", "\\"}}) {
      ReplaceAll(place, escaped, character);
    }
    for (std::string word; word != "-" && words >> word;) {
    }
    std::string type;
    if (words >> type && place.size() >= deepest.size() && LiesIn(directory.native(), place)) {
      deepest = place;
      shared = std::ranges::find(kSharedTypes, type) != kSharedTypes.end();
    }
  }
  return shared;
}

}  // namespace ddprun

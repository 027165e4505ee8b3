// Who may see the status page, and who may operate a run by it.
//
// A browser shows a key that is derived from the run's token, never the token: once, by a script of
// the page itself, and from then on as a cookie that goes to this page alone. What changes anything
// is asked for by POST, from the page itself, with the key to operate. A page that is asked for by
// a name that is not this machine's is not shown, or somebody else's site could be that name.
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "common/ids.h"
#include "launcher/watching/http_message.h"

namespace ddprun {

enum class May { kNothing, kLook, kOperate };
const char* WordOf(May may);  // "", "look", "operate".

class PageAccess {
 public:
  // An empty token: everybody may look, and nobody operates.
  PageAccess(const std::string& token, const RunId& run, std::vector<std::string> names);
  PageAccess() = default;

  // By its cookie.
  May Of(const HttpRequest& request) const;
  May WithKey(const std::string& key) const;
  // The Set-Cookie header for a key.
  std::string Cookie(const std::string& key) const;

  // Addresses, "localhost" and the names of this machine.
  bool IsOurName(const std::string& host) const;
  // It comes from the page itself, by its script.
  static bool FromPage(const HttpRequest& request);

 private:
  std::string look_, operate_, cookie_;
  std::vector<std::string> names_;
};

// What `ddprun status --url` prints: a line for who looks, and one for who operates.
std::string PageLinks(const std::string& address, const std::string& token, const RunId& run);

}  // namespace ddprun

// Decides which browsers may see the status page, and which may operate a run by it.
//
// A browser shows a key that is derived from the run's token, never the token: once, by a script of
// the page itself, and from then on as a cookie that goes to this page alone. A request that
// changes anything comes by POST, from the page itself, with the key to operate. A page that is
// asked for by a name that is not this machine's is not shown, or another site could have that
// name.
//
// A page whose server is gone leads its reader to another node's page, with his key. So it first
// asks there for a proof that the key is known, which is given for this page's own places alone:
// a program at a page's former address cannot pass the question on.
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "common/ids.h"
#include "launcher/watching/http_message.h"
#include "rendezvous/listener/token_proof.h"

namespace ddprun {

enum class May { kNothing, kLook, kOperate };
const char* WordOf(May may);  // "", "look", "operate".

class PageAccess {
 public:
  // An empty token: all may look, and none may operate. `places`: "n0:29400", where this page is to
  // be had.
  PageAccess(const std::string& token, const RunId& run, std::vector<std::string> names,
             std::vector<std::string> places);
  PageAccess() = default;
  // The keys of the server's whole page (PageLinks of no run) open this one too.
  void AlsoOfAllRuns(const std::string& token);

  // By its cookie.
  May Of(const HttpRequest& request) const;
  May WithKey(const std::string& key) const;
  bool HasKeys() const { return !keys_.empty(); }
  // --http-listen answers every caller, and the server's own port those with a key.
  bool MayProbe(const HttpRequest& request) const {
    return !request.at_port || Of(request) != May::kNothing;
  }
  // Of the run; empty: no key is needed.
  std::string KeyOf(May may) const;
  // That both keys are known here; none: the request is for another place, or shows no nonce.
  std::optional<PageKeys> Proofs(const HttpRequest& request) const;
  // The Set-Cookie header for a key that is one.
  std::string Cookie(const std::string& key) const;

  // Addresses, "localhost" and the names of this machine.
  bool IsOurName(const std::string& host) const;
  // It comes from the page itself, by its script.
  static bool FromPage(const HttpRequest& request);

 private:
  struct Keys {
    PageKeys keys;
    std::string cookie;  // Its name.
    May Allow(const std::string& key) const;
  };
  static Keys KeysOf(const std::string& token, const RunId& run);
  std::vector<Keys> keys_;  // The run's first; none: all may look.
  std::vector<std::string> names_, places_;
};

// "n0:29400": where a page can be had from listeners at these endpoints (port 0: it has none
// there), by their own hosts and by these.
std::vector<std::string> PlacesOf(const std::vector<Endpoint>& listening,
                                  const std::vector<std::string>& hosts);

// The output of `ddprun status --url`: a line for looking, and one for operating. Of no run: all of
// the server's.
std::string PageLinks(const std::string& address, const std::string& token, const RunId& run);

}  // namespace ddprun

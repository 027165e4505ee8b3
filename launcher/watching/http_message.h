// Requests over HTTP, and their answers, as values.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct HttpRequest {
  bool post = false;  // Else GET or HEAD.
  bool head = false;
  std::string path;    // Without its query.
  std::string run;     // The run that the query names (?run=); empty: none.
  std::string end;     // This end of its connection: "10.0.0.3:29400".
  std::string host;    // The Host header.
  std::string origin;  // The Origin header; empty: there is none.
  std::string cookie;
  std::string body;
  bool at_port = false;    // It came to the server's own port, which any peer can reach.
  bool by_script = false;  // It has the header X-Ddprun, which no other site's form can send.
};

inline constexpr unsigned kHttpUnavailable = 503;

struct HttpAnswer {
  unsigned status = 200;
  std::string body;
  std::string type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers;
  bool stream = false;    // Instead of `body`: News for as long as the reader stays.
  std::string stream_of;  // The run that the stream is of; empty: all runs.
  // Instead of `body`: done is called with the answer, from any thread, once or never.
  std::function<void(std::function<void(HttpAnswer)> done)> act;
};

// The place up to which a stream's reader has got its events.
struct StreamPlace {
  std::string run;                      // That its reader may see; empty: all.
  std::string state, events, training;  // Digests of the last of each.
  std::chrono::steady_clock::time_point told;
};

// A look at what is asked about, as of one moment. Used by one thread.
class HttpAnswers {
 public:
  virtual ~HttpAnswers() = default;
  virtual HttpAnswer Reply(const HttpRequest& request) = 0;
  // In the form of server-sent events; empty: nothing new.
  virtual std::string News(StreamPlace& place) = 0;
};

}  // namespace ddprun

// The connection to one host: ssh, or ddprun itself on this machine, with pipes to its three
// streams. Shows what the host prints, with the host's name before each line, and finds the marks
// of control_stream.h in it. Decides nothing.
//
// Never waits: input of the host is queued here, most of it shared with other hosts; and nothing is
// read while standard output or standard error has no room (OutputStream).
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/workers/merged_console.h"
#include "agent/workers/output_stream.h"
#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_output.h"
#include "agent/workers/worker_spec.h"
#include "common/asio_loop.h"
#include "common/exit_status.h"
#include "common/lifetime.h"
#include "launcher/hosts/control_stream.h"
#include "launcher/hosts/hosts_core.h"

namespace ddprun {

class HostLink : public std::enable_shared_from_this<HostLink> {
 public:
  // HostLacks, once for each file; HostGreets, HostEnds and HostGone, each once at most, and the
  // last one also after HostEnds. On the loop, never from inside a call to the link.
  using Told = std::function<void(const HostsEvent&)>;

  // `host`: of these events.
  HostLink(AsioLoop& loop, std::size_t host, const std::string& name, const std::string& word,
           Told told);
  ~HostLink();

  // `errors`: in front of the console for errors.
  void Start(WorkerSpec spec, Consoles& consoles, MergedConsole& errors);
  void Send(std::string_view bytes);
  void Send(std::shared_ptr<const std::string> bytes);
  // After the greeting, unless more is on its way already.
  void SayStillThere();
  // Nothing more is reported. The host sees the end of its input, and ends its processes. The
  // command that connects to it is killed if it does not follow, at once where the host has not
  // greeted.
  void Drop();
  // Its process is there, or about to be.
  bool runs() const { return runs_; }
  // Whether output has come since this was last asked.
  bool Heard() { return std::exchange(heard_, false); }

 private:
  void OnLaunched(Result<LaunchedWorker> launched);
  std::string TakeMarks(std::string_view bytes);
  void OnExit();
  void LookForEnd();
  std::string WhyGone() const;
  void Tell(const HostsEvent& event);
  void Write();
  void CloseInput();
  void Kill();

  AsioLoop& loop_;
  const std::size_t host_;
  const std::string name_;
  const Told told_;
  MarkReader marks_;
  std::optional<std::size_t> lacks_;
  bool heard_ = false;
  bool greeted_ = false;
  bool ended_ = false;
  bool dropped_ = false;
  bool runs_ = false;
  pid_t pid_ = 0;  // 0: not started yet, or reaped.
  std::optional<ExitStatus> status_;
  std::deque<std::shared_ptr<const std::string>> queued_;
  bool writing_ = false;
  bool closes_input_ = false;  // Once what is queued is written.
  boost::asio::posix::stream_descriptor input_;
  boost::asio::posix::stream_descriptor pidfd_;
  std::shared_ptr<OutputStream> out_;
  std::shared_ptr<OutputStream> err_;
  LoopTimer limit_;
  const Lifetime life_;
};

}  // namespace ddprun

// The events of a node agent, and the effects that it asks for. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/worker_word.h"
#include "rendezvous/messages/messages.h"
#include "rendezvous/messages/notice.h"

namespace ddprun {

// ---- Events ----
struct Started {
  Incarnation incarnation;
  Endpoint store;  // The first port offered.
};
struct Replied {
  std::uint64_t sequence = 0;
  SyncReply reply;
  Incarnation spare;  // A fresh random one, used if this membership is over.
};
struct CallFailed {
  std::uint64_t sequence = 0;
  std::string text;
  bool hopeless = false;  // The server cannot use this node's calls: token, protocol.
};
// It ends, or has ended, and is no success. WorkerEnded will follow, with what is known of its end.
struct WorkerDying {
  Generation generation;
  std::uint32_t local_rank = 0;
};
struct WorkerEnded {
  Generation generation;
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  ExitStatus status;
  bool said_hello = false;
  std::string last_lines;
  FailureDetails details;
  std::optional<Time> recorded;  // When it failed, by its error file's word.
  std::optional<Time> noticed;   // When its end was; its files were read since. Unset: now.
};
// Every process of the generation is gone and its output is drained. Without any WorkerEnded
// before: the stop was ordered before its workers had been started.
struct AllGone {
  Generation generation;
  Endpoint store;  // The port offered from now on.
};
struct SpawnFailed {
  Generation generation;
  std::string text;
  Endpoint store;
};
// The store of this generation does not let this node's workers in.
struct StoreRefuses {
  Generation generation;
  std::string text;  // Why, and what to set.
};
// After the order to end at once: a worker that catches TERM has worked since a second ago.
struct StillActive {
  Generation generation;
};
// All of them are; else SpawnFailed comes.
struct WorkersStarted {
  Generation generation;
};
// Whether the start of the workers lasts: it waits for a disk. Not sent for a start that does not
// last.
struct StartLasts {
  Generation generation;
  bool lasts = true;
};
// On the notify socket, or in what it printed.
using WorkerSpoke = WorkerWord;
// The verdict of this node's check; empty: it passes.
struct NodeChecked {
  std::string unfit;
};
// The known facts about this machine; the reason of --host-check to refuse it, or empty if it does
// not.
struct HostLooked {
  HostFacts facts;
  std::string refuses;
};
struct StacksTaken {
  Generation generation;
};
struct SignalArrived {
  int signal = 0;
  bool starting = false;  // The workers are still being started, however briefly: a signal would
                          // reach none of them yet.
};
// The machine is taken away then. A later word replaces an earlier one.
struct JobEndKnown {
  Time ends;
  std::int64_t unix_seconds = 0;  // The same moment, for people.
  std::optional<Time> stop;       // When the workers are to save and end; none: there was no such
                                  // request.
  bool asked = false;             // By an operator (ddprun stop --soon): no scheduler knows of it.
};
// Another server is spoken to from now on, and it was not asked yet.
struct ServerChanged {};
struct AgentTick {};
using AgentEvent =
    std::variant<Started, Replied, CallFailed, WorkerDying, WorkerEnded, AllGone, SpawnFailed,
                 StoreRefuses, StillActive, WorkersStarted, StartLasts, WorkerSpoke, NodeChecked,
                 HostLooked, StacksTaken, SignalArrived, JobEndKnown, ServerChanged, AgentTick>;

// ---- Effects ----
enum class CheckCause {
  kStart,
  kFailure,  // Workers have failed here.
  kUnfit,    // It is, as the last verdict says.
};
struct SendReport {  // Replaces the call in flight.
  NodeReport report;
  Duration deadline{0};
};
// Answered by SpawnFailed, or by WorkerEnded and AllGone; it may last, and be stopped meanwhile.
struct Spawn {
  Placement placement;
};
struct SignalWorkers {
  int signal = 0;
  bool end_at_once = false;  // A peer is gone: there is nothing to save together.
};
struct KillWorkers {};
// Whether this machine is fit for workers (--host-check, --node-check); answered by NodeChecked.
struct CheckNode {
  CheckCause cause = CheckCause::kStart;
};
// Of every worker, into files, these first; answered by StacksTaken within kEvidenceTime, or too
// late. Well below what a coordinator waits for a stop (at least 8 s): else it takes the node for
// lost.
inline constexpr Duration kEvidenceTime{6'000};
struct TakeStacks {
  Generation generation;
  std::vector<std::uint32_t> local_ranks;  // The furthest behind first.
};
struct Exit {
  int code = 0;
  std::optional<Finish> finish;  // The coordinator's Finish, if there was one.
  std::string text;              // Why, when it did not.
};
struct Say {
  NoticeLevel level = NoticeLevel::kInfo;
  std::string text;
};
using AgentEffect =
    std::variant<SendReport, Spawn, SignalWorkers, KillWorkers, CheckNode, TakeStacks, Exit, Say>;

}  // namespace ddprun

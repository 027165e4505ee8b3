// A whole run in one thread and no time: the product's drivers with their cores, and a network,
// processes, disks and a clock that misbehave on order.
//
// Decides nothing about the run. What goes wrong and when is the plan's business, what must never
// happen is the laws'.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/core/node_agent.h"
#include "rendezvous/core/coordinator.h"
#include "tests/sim/agenda.h"
#include "tests/sim/laws.h"
#include "tests/sim/transcript.h"

namespace ddprun::sim {

class Candidate;
class Machine;
class RunDirectory;
class Server;
class Training;

// What the network does to each message and call. All zero but delay: calm.
struct Weather {
  double lose = 0;
  double duplicate = 0;
  double cut = 0;          // A call's connection closes some time after it began.
  double notice_lost = 0;  // The server does not learn of a closed connection.
  double slow = 0;         // Delayed up to slow_max instead of max_delay.
  Duration min_delay{1};
  Duration max_delay{3};
  Duration slow_max{0};
};

enum class Way;

// What kind of program the workers are: what they do when a peer dies.
enum class Program {
  kTrainer,      // Says hello, ends with 75.
  kPlain,        // Ends with 1, after TERM or its peer's death.
  kHanging,      // Blocked in a collective until it is killed.
  kIndependent,  // Does not notice.
};

// How workers behave until the simulation is healed.
struct Conduct {
  double fails = 0;         // Per worker: ends with an exit code or a signal while it works.
  double ignores_term = 0;  // Only KILL ends it.
  double stuck = 0;         // Outlives KILL for a while.
  double spawn_fails = 0;
  double slow_start = 0;   // It waits for a disk, for half a minute at most.
  double slow_files = 0;   // So does reading what a dead worker left.
  Duration slow_exit{50};  // TERM to its end, at most.
  double hangs = 0;        // Per worker: makes no further step, and does not see TERM.
};

// Rules of design section 4 that can be broken from outside, to show what each is needed for.
struct Mutation {
  std::string of_driver;             // A rule of break_driver.py.
  bool invent_promises = false;      // Every node that hosts nothing seems to promise.
  bool believe_old_reports = false;  // Overtaken reports count as the newest.
  bool believe_old_replies = false;  // Overtaken calls' answers count as the newest call's.
  bool forget_floor = false;         // The agent does not keep what it promised.
  bool no_disconnect_grace = false;  // A closed connection is a lost node.
  bool no_recovery_lease = false;    // A new server does not wait for those it has not heard.
  bool tell_before_keeping = false;  // The outcome is told while it may still be forgotten.
  bool charge_recovered = false;     // What a new server finds counts as worker failure.
  bool judge_early = false;          // With the first evidence, not when all have stopped.
  bool no_successor_grace = false;   // A second agent of a node ousts the first at once.
  bool no_forgiveness = false;       // A tick that comes late does not extend leases.
  bool no_several_at_once = false;   // Many closed connections are as many lost nodes.
  bool no_fence_kill = false;        // An agent that is cut off keeps its workers (--fence-after).
  bool no_fence_wait = false;        // A lost node is replaced before its own fence is over.
  // ---- Where the server's part moves ----
  bool no_standstill = false;  // Who misses the server does not watch the counter.
  bool no_silence = false;     // A still counter is enough, though the server answers.
  bool no_lenience = false;    // What it missed while it stood still counts as silence.
  bool keep_serving = false;   // A holder that cannot write goes on.
  bool no_exclusion = false;   // A number can be made twice.
  // Of the fence of checkpoints.
  bool claim_always = false;    // A world claims whatever newer one has claimed before.
  bool commit_always = false;   // It takes the newest record for its own.
  bool overwrite = false;       // A record's number can be made twice.
  bool resume_largest = false;  // The largest step that lies there is loaded.
  bool no_sync = false;         // Nothing is forced to disk.
  bool no_reread = false;       // The fence is looked at for a save alone.
};

struct Setup {
  RunShape shape;
  std::uint32_t machines = 2;
  std::vector<std::uint32_t> workers;  // Per machine.
  std::optional<std::uint32_t> twin;   // This machine says that it is n0, as the first one does.
  Program program = Program::kPlain;
  bool evicted = false;      // TERM is a scheduler's word, which takes machines one by one.
  Duration work{5'000};      // From "everybody is here" to the end.
  bool journal = false;      // The server keeps one.
  Duration slow_disk{5};     // A record is on disk after this long at most.
  bool clock_jumps = false;  // A restarted server's wall clock may have gone back.
  Duration hang_timeout{0};  // 0: workers send no heartbeats.
  std::optional<std::size_t> run_bytes;  // None: as always.
  bool tells_steps = false;              // The program: as ddprun-train does.
  Weather weather;
  Conduct conduct;
  Mutation mutation;
  // ---- Where the server's part moves ----
  std::uint32_t listed = 0;  // So many machines keep the claims; 0: a directory that all share.
  double stale_claims = 0;   // A read of that shows what was long ago.
  bool shared_disk = true;   // Of checkpoints; else each machine has its own.
  double stale_listings = 0;
  double long_pauses = 0;   // Of rank 0, between any two operations on files.
  std::uint64_t steps = 0;  // Of the whole training,
  std::uint64_t save_every = 1;
  Duration step_time{100};
  std::size_t keep_last = 3;
  bool heedless = false;  // Rank 0 makes steps though its peers cannot be reached.
};

// One world's workers, wherever they run: a program that works only while all of it is there.
struct Job {
  std::uint32_t size = 0;
  std::set<std::uint32_t> joined;
  bool broken = false;
  bool done = false;
  bool hung = false;
  std::map<std::uint32_t, std::uint64_t> steps;  // By rank; none is two ahead of another.
  std::map<std::uint32_t, Machine*> where;       // By rank.
  std::uint64_t first_step = 0;                  // Where it resumed.
  std::optional<Time> began;                     // Everybody was there.
};

class Simulation {
 public:
  Simulation(const Setup& setup, std::uint64_t seed, TranscriptLevel level);
  ~Simulation();

  // Everything due until `end` happens, or until a law is broken.
  void RunUntil(Time end);
  // No more faults: calm weather, well-behaved workers, every machine in order again.
  void Heal();
  // No agent lives any more.
  bool Quiet() const;

  // Carries a message from or to a machine, as the weather allows; `arrive` may happen not at all,
  // late, or twice.
  void Deliver(const Machine& machine, Way way, const Server& server, std::function<void()> arrive);
  // The server's end of it, where that is a machine too.
  bool Linked(const Machine& machine, Way way, const Server& server) const;
  // What one machine sends to the other gets there.
  bool Reaches(std::uint32_t from, std::uint32_t to) const;
  Duration Delay();
  void WorkerJoined(Machine& machine, const Placement& placement, std::uint32_t rank);
  // The rank's next step, or its last one again while its peers are behind.
  std::uint64_t WorkerSteps(WorldId world, std::uint32_t rank);
  void WorkerHangs(WorldId world) { jobs_[world].hung = true; }
  // A hang may be found: some worker hangs, or waits for one that died.
  bool MayHang(WorldId world) { return jobs_[world].hung || jobs_[world].broken; }
  void WorkerDied(Machine& machine, WorldId world, std::uint32_t rank, bool finished);
  void FinishWorld(WorldId world);
  Job& job(WorldId world) { return jobs_[world]; }

  // How far a world's workers have got by now: twenty steps a second, saved every forty.
  std::uint64_t StepOf(WorldId world);

  Agenda agenda;
  Random random;
  Setup setup;
  Transcript transcript;
  Laws laws;
  std::unique_ptr<Server> server;
  std::vector<std::unique_ptr<Machine>> machines;

  // ---- Only where the server's part moves from one machine to another ----
  std::unique_ptr<RunDirectory> run_directory;
  std::vector<std::unique_ptr<Candidate>> candidates;      // One per machine, or none.
  std::unique_ptr<Training> training;                      // What the workers do; none: they wait.
  std::set<std::pair<std::uint32_t, std::uint32_t>> cuts;  // One way, between two machines.

 private:
  void TellPeer(const Machine& from, Machine& to, WorldId world);
  void FinishAfterWork(WorldId world);

  std::map<WorldId, Job> jobs_;
  std::uint64_t reached_ = 0;  // By any world.
};

}  // namespace ddprun::sim

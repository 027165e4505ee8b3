// The variables of every scheduler, as a real one set them (captured/*.env; the first line says
// where they are from, or that they follow documentation), and what is derived from them.
#include "launcher/environment/detect.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "launcher/environment/launch_place.h"
#include "launcher/environment/reading.h"
#include "launcher/environment/shared_directory.h"
#include "proto/environment_testing.h"

namespace ddprun {
namespace {

using Variables = std::map<std::string, std::string>;

Variables Captured(const std::string& name) {
  std::ifstream file(std::string(CAPTURED) + "/" + name + ".env");
  Variables variables;
  for (std::string line; std::getline(file, line);) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with('#') && equals != std::string::npos) {
      variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  EXPECT_FALSE(variables.empty()) << name;
  return variables;
}

struct Case {
  Variables variables;
  std::vector<Setting> said = {};
  std::uint32_t gpus = 0;
  Variables files = {};
};

Result<LaunchContext> Look(const Case& given) {
  ContextQuery query;
  query.get_env = Environment(given.variables);
  query.said = given.said;
  query.gpus = given.gpus;
  query.parent = 77;
  query.directory = "/shared/me";
  query.read_file = [&](const std::string& path) -> Result<std::string> {
    const auto found = given.files.find(path);
    if (found == given.files.end()) {
      return Error{ErrorKind::kNotFound, "no " + path};
    }
    return found->second;
  };
  return ReadContext(query);
}

LaunchContext Found(const Case& given) {
  const Result<LaunchContext> context = Look(given);
  EXPECT_TRUE(context) << (context ? "" : context.error().message);
  return context ? *context : LaunchContext{};
}

std::string Refusal(const Case& given) {
  const Result<LaunchContext> context = Look(given);
  EXPECT_FALSE(context);
  EXPECT_TRUE(context || context.error().kind == ErrorKind::kInvalid);
  return context ? "" : context.error().message;
}

// "nnodes=3 rdzv-id=1.0.0", without ports.
std::string Settings(const LaunchContext& context) {
  std::string text;
  for (const Setting& setting : context.settings) {
    const bool endpoint = setting.name == "rdzv-endpoint";
    const std::string value =
        endpoint ? setting.value.substr(0, setting.value.rfind(':')) : setting.value;
    EXPECT_FALSE(setting.origin.empty()) << setting.name;
    text += (text.empty() ? "" : " ") + setting.name + "=" + value;
  }
  return text;
}

std::string ValueOf(const LaunchContext& context, const std::string& name) {
  return ddprun::ValueOf(context.settings, name).value_or("none");
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Slurm, AStepIsANodeOfIt) {
  const LaunchContext context = Found({Captured("slurm_step")});
  EXPECT_EQ(context.scheduler, Scheduler::kSlurm);
  EXPECT_EQ(Settings(context),
            "nproc-per-node=1 nnodes=3 rdzv-id=1.0.0 node-rank=1 rdzv-endpoint=127.0.1.1 "
            "log-dir=ddprun_logs");
  EXPECT_EQ(context.line, "Slurm step 1.0: node 1 of 3, 127.0.1.2");
  EXPECT_EQ(context.index, 1u);
  EXPECT_FALSE(context.on_first_node);
  EXPECT_EQ(context.node, "127.0.1.2");
  EXPECT_EQ(context.hosts.size(), 3u);
  EXPECT_EQ(context.cpus, 1u);
  EXPECT_TRUE(context.derived_port);
  EXPECT_EQ(context.waiter, (Endpoint{"127.0.0.1", 41797}));
  EXPECT_TRUE(context.tells_before_end);
  EXPECT_FALSE(context.task_slot);
}

TEST(Slurm, AWorkingDirectoryOnASharedFileSystemHasAPlaceForTheRun) {
  Case given{Captured("slurm_step")};
  EXPECT_EQ(Found(given).shared, "");
  given.files["/proc/self/mountinfo"] =
      "1 0 0:1 / / rw - ext4 /dev/x rw\n2 1 0:2 / /shared rw - nfs4 n:/h rw\n";
  EXPECT_EQ(Found(given).shared, "/shared/me/.ddprun/1.0.0");
}

TEST(IsShared, IsWhatTheDeepestAndLastMountIs) {
  const std::string mounts =
      "1 0 0:1 / / rw - ext4 /dev/x rw\n"
      "2 1 0:2 / /shared rw,relatime shared:7 master:1 - lustre n@tcp:/h rw\n"
      "3 2 0:3 / /shared/local rw - xfs /dev/y rw\n"
      "4 2 0:4 / /shared/a\\040b rw - beegfs beegfs_nodev rw\n"
      "5 1 0:5 / /twice rw - nfs n:/t rw\n"
      "6 5 0:6 / /twice rw - tmpfs none rw\n";
  for (const auto& [directory, shared] : {std::pair("/shared", true),
                                          {"/shared/me/run", true},
                                          {"/sharedwork", false},
                                          {"/", false},
                                          {"/shared/local", false},
                                          {"/shared/local/x", false},
                                          {"/shared/a b/x", true},
                                          {"/twice", false},
                                          {"", false}}) {
    EXPECT_EQ(IsShared(directory, mounts), shared) << directory;
  }
  EXPECT_FALSE(IsShared("/shared", ""));
  EXPECT_FALSE(IsShared("/shared", "1 0 0:1 / /shared"));
}

TEST(Slurm, ThePortIsTheSameForAStepAndAnotherForTheNext) {
  Variables variables = Captured("slurm_step");
  const std::string port = ValueOf(Found({variables}), "rdzv-endpoint");
  variables["SLURM_NODEID"] = variables["SLURM_PROCID"] = "2";
  EXPECT_EQ(ValueOf(Found({variables}), "rdzv-endpoint"), port);
  variables["SLURM_STEP_ID"] = "1";
  EXPECT_NE(ValueOf(Found({variables}), "rdzv-endpoint"), port);
  for (int job = 0; job < 20'000; ++job) {
    const std::uint16_t one = PortOfJob(std::to_string(job) + ".0");
    ASSERT_TRUE(one >= kFirstJobPort && one < 32'768) << one;
  }
}

TEST(Slurm, AStepMayHaveFewerNodesThanItsJob) {
  const LaunchContext context = Found({Captured("slurm_subset")});
  EXPECT_EQ(ValueOf(context, "nnodes"), "2");
  EXPECT_EQ(ValueOf(context, "node-rank"), "1");
  EXPECT_EQ(context.hosts, (std::vector<std::string>{"127.0.1.2", "127.0.1.3"}));
}

TEST(Slurm, AHeterogeneousStepIsOne) {
  const LaunchContext context = Found({Captured("slurm_het")});
  EXPECT_EQ(ValueOf(context, "nnodes"), "3");
  EXPECT_EQ(ValueOf(context, "node-rank"), "1");
}

TEST(Slurm, GpusMakeWorkers) {
  Variables variables = Captured("slurm_gpus");
  EXPECT_EQ(ValueOf(Found({variables}), "nproc-per-node"), "2");
  variables["CUDA_VISIBLE_DEVICES"] = "0,1,2";
  EXPECT_EQ(ValueOf(Found({variables}), "nproc-per-node"), "3");
  EXPECT_EQ(ValueOf(Found({variables, {{"gpu-ids", "0,2", ""}}}), "nproc-per-node"), "gpu");
  variables.erase("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(ValueOf(Found({variables}), "nproc-per-node"), "2");
  variables.erase("SLURM_STEP_GPUS");
  EXPECT_EQ(ValueOf(Found({variables}), "nproc-per-node"), "2");
  variables.erase("SLURM_GPUS_ON_NODE");
  EXPECT_EQ(ValueOf(Found({variables, {}, 4}), "nproc-per-node"), "4");
  EXPECT_EQ(ValueOf(Found({variables}), "nproc-per-node"), "1");
  EXPECT_EQ(Found({variables}).cpus, 2u);
}

TEST(Slurm, ARequeuedJobIsAnotherRun) {
  Variables variables = Captured("slurm_step");
  variables["SLURM_RESTART_COUNT"] = "2";
  variables["SLURM_JOB_END_TIME"] = "1795320000";
  const LaunchContext context = Found({variables});
  EXPECT_EQ(ValueOf(context, "rdzv-id"), "1.0.2");
  EXPECT_EQ(context.requeues, 2u);
  EXPECT_EQ(context.ends_at, 1'795'320'000);
  EXPECT_FALSE(context.speaks_for_job);
  variables["SLURM_JOB_END_TIME"] = "99999999999999999";
  EXPECT_EQ(Found({variables}).ends_at, std::nullopt);
  variables["SLURM_NODEID"] = variables["SLURM_PROCID"] = "0";
  EXPECT_TRUE(Found({variables}).speaks_for_job);
  EXPECT_TRUE(Contains(context.line, "requeued 2 times")) << context.line;
}

TEST(Slurm, ATaskOfAnArraySaysSo) {
  const LaunchContext context = Found({Captured("slurm_array")});
  EXPECT_TRUE(Contains(context.line, ", task 3 of array 9")) << context.line;
  EXPECT_EQ(Settings(context), "nproc-per-node=1 nnodes=1 rdzv-id=9.0.0 log-dir=ddprun_logs");
}

TEST(Slurm, BetweenMinAndMaxNoRankIsFixed) {
  const LaunchContext context =
      Found({Captured("slurm_step"), {{"nnodes", "2:3", "command line"}}});
  EXPECT_EQ(ValueOf(context, "node-rank"), "none");
  EXPECT_EQ(context.index, 1u);
}

TEST(Slurm, SeveralTasksOnANodeAreAWorkerEach) {
  for (const char* capture : {"slurm_tasks", "slurm_pmi2"}) {
    const LaunchContext context = Found({Captured(capture)});
    EXPECT_EQ(context.scheduler, Scheduler::kSlurm) << capture;
    EXPECT_EQ(ValueOf(context, "nnodes"), "4");
    EXPECT_EQ(ValueOf(context, "nproc-per-node"), "1");
    ASSERT_TRUE(context.task_slot);
    EXPECT_EQ(context.task_slot->local_size, context.index == 3u ? 2u : 3u);  // srun -n4: 3 and 1.
  }
  const LaunchContext last = Found({Captured("slurm_tasks")});
  EXPECT_EQ(ValueOf(last, "node-rank"), "3");
  EXPECT_EQ(last.task_slot->local_rank, 1u);
  EXPECT_EQ(last.node, "127.0.1.2.1");
  const LaunchContext uneven = Found({Captured("slurm_uneven")});
  EXPECT_EQ(uneven.task_slot->local_size, 1u);
  EXPECT_EQ(ValueOf(uneven, "nnodes"), "5");
}

TEST(Slurm, TasksAndWorkersTogetherAreRefused) {
  for (const Setting& said :
       {Setting{"nproc-per-node", "8", "command line"}, Setting{"nnodes", "2", "command line"}}) {
    const std::string refusal = Refusal({Captured("slurm_tasks"), {said}});
    EXPECT_TRUE(Contains(refusal, "--ntasks-per-node=1")) << refusal;
  }
}

TEST(Slurm, OutsideOfAStepSrunWasForgotten) {
  const LaunchContext batch = Found({Captured("slurm_batch")});
  EXPECT_EQ(batch.scheduler, Scheduler::kSlurmBatch);
  EXPECT_EQ(batch.launcher,
            (std::vector<std::string>{"srun", "--kill-on-bad-exit=0", "--wait=0", "--no-kill",
                                      "-N3", "-n3", "--ntasks-per-node=1", "-c2"}));
  EXPECT_FALSE(batch.IsPlaced());
  EXPECT_FALSE(Found({Captured("slurm_salloc")}).launcher.empty());
  EXPECT_EQ(Found({{{"SLURM_JOB_ID", "7"}}}).scheduler, Scheduler::kNone);  // Left behind.
  Variables one = Captured("slurm_batch");
  one["SLURM_NNODES"] = one["SLURM_JOB_NUM_NODES"] = "1";
  const LaunchContext alone = Found({one});
  EXPECT_TRUE(alone.launcher.empty());
  EXPECT_EQ(ValueOf(alone, "rdzv-id"), "4.batch.0");
  Variables interactive = Captured("slurm_step");
  interactive["SLURM_STEP_ID"] = "4294967290";
  EXPECT_EQ(Found({interactive}).scheduler, Scheduler::kSlurmBatch);
}

TEST(Slurm, ContradictionsAreRefused) {
  for (const auto& [name, value] :
       {std::pair("SLURM_STEP_NODELIST", "n[1-2]"), std::pair("SLURM_STEP_NODELIST", "n[3-1]"),
        std::pair("SLURM_NODEID", "3"), std::pair("SLURM_NODEID", ""),
        std::pair("SLURM_PROCID", "x"), std::pair("SLURM_LOCALID", "7")}) {
    Variables variables = Captured("slurm_step");
    variables[name] = value;
    EXPECT_FALSE(Refusal({variables}).empty()) << name << "=" << value;
  }
}

TEST(CommandLineFirst, AGivenEndpointIsNotAskedFor) {
  for (const Setting& said :
       {Setting{"rdzv-endpoint", "n0:29400", "command line"},
        Setting{"master-addr", "n0", "PET_MASTER_ADDR"}, Setting{"node-rank", "0", "run.toml:1"},
        Setting{"standalone", "true", "command line"}, Setting{"nnodes", "1", "command line"}}) {
    const LaunchContext context = Found({Captured("slurm_step"), {said}});
    EXPECT_EQ(context.scheduler, Scheduler::kCommandLine) << said.name;
    EXPECT_EQ(Settings(context), "");
    EXPECT_FALSE(context.IsPlaced());
    EXPECT_EQ(context.job, "1");  // Facts are facts.
    EXPECT_TRUE(context.tells_before_end);
    EXPECT_TRUE(Contains(context.line, said.origin)) << context.line;
  }
  const LaunchContext twice =
      Found({Captured("slurm_tasks"), {{"rdzv-endpoint", "n0:1", "command line"}}});
  EXPECT_TRUE(twice.warnings.empty());  // Said by the first on each node alone.
  Variables first = Captured("slurm_tasks");
  first["SLURM_LOCALID"] = "0";
  EXPECT_EQ(Found({first, {{"rdzv-endpoint", "n0:1", "command line"}}}).warnings.size(), 1u);
}

TEST(CommandLineFirst, NodesThatWouldTrainAloneSayWhatToSet) {
  Variables variables = Captured("slurm_step");
  const std::vector<Setting> endpoint = {{"rdzv-endpoint", "n0:1", "command line"}};
  EXPECT_TRUE(Found({variables, endpoint}).warnings.empty());  // The first node says it for all.
  variables["SLURM_NODEID"] = variables["SLURM_PROCID"] = "0";
  EXPECT_EQ(Found({variables, endpoint}).warnings,
            std::vector<std::string>{
                "no --nnodes beside --rdzv-endpoint=n0:1 (command line): each of the 3 nodes of "
                "Slurm step 1.0 trains alone. Set --nnodes=3"});
  for (const Setting& more : {Setting{"nnodes", "1:3", ""}, Setting{"standalone", "true", ""},
                              Setting{"hosts", "n0,n1", ""}}) {
    EXPECT_TRUE(Found({variables, {endpoint.front(), more}}).warnings.empty()) << more.name;
  }
  for (const char* const here : {"localhost:0", "127.0.0.1:29500", "[::1]:0", "localhost"}) {
    EXPECT_TRUE(Found({variables, {{"rdzv-endpoint", here, ""}}}).warnings.empty()) << here;
    EXPECT_TRUE(Found({variables, {{"master-addr", here, ""}}}).warnings.empty()) << here;
  }
  EXPECT_TRUE(Found({variables, {}}).warnings.empty());
}

// Facts of a pod: TERM concerns it alone if the other pods can continue without it.
TEST(CommandLineFirst, APodHearsOfItAloneWhereverTheNodesMeet) {
  const Setting endpoint{"rdzv-endpoint", "train-0.train:29400", "command line"};
  const LaunchContext elastic =
      Found({Captured("kubernetes"), {endpoint, {"nnodes", "2:4", "command line"}}});
  EXPECT_EQ(elastic.scheduler, Scheduler::kCommandLine);
  EXPECT_EQ(Settings(elastic), "");
  EXPECT_TRUE(elastic.tells_before_end && elastic.ends_nodes_alone);
  const LaunchContext fixed =
      Found({Captured("kubernetes"), {endpoint, {"nnodes", "4", "command line"}}});
  EXPECT_FALSE(fixed.tells_before_end);
  const LaunchContext alone = Found({Captured("kubernetes"), {{"nnodes", "1", "command line"}}});
  EXPECT_TRUE(alone.tells_before_end);  // No process waits for it.
}

TEST(Worker, HasAPlaceAlready) {
  Variables variables = Captured("slurm_step");
  variables["TORCHELASTIC_RUN_ID"] = "1.0.0";
  const LaunchContext context = Found({variables});
  EXPECT_EQ(context.scheduler, Scheduler::kWorker);
  EXPECT_EQ(Settings(context), "");
  EXPECT_FALSE(context.tells_before_end);
}

TEST(OpenMpi, OnOneMachineEachIsAWorker) {
  const LaunchContext context = Found({Captured("openmpi")});
  EXPECT_EQ(context.scheduler, Scheduler::kOpenMpi);
  EXPECT_EQ(Settings(context), "nproc-per-node=1 nnodes=4 rdzv-id=mpi-" +
                                   Captured("openmpi")["PMIX_NAMESPACE"] +
                                   " node-rank=2 rdzv-endpoint=127.0.0.1");
  ASSERT_TRUE(context.task_slot);
  EXPECT_EQ(context.task_slot->local_rank, 2u);
  EXPECT_TRUE(context.on_first_node);
}

TEST(OpenMpi, OnSeveralTheHostOfRank0MustBeKnown) {
  Variables variables = Captured("openmpi_two");
  const std::string refusal = Refusal({variables});
  EXPECT_TRUE(Contains(refusal, "-x MASTER_ADDR=HOST")) << refusal;
  variables["MASTER_ADDR"] = "n0";
  EXPECT_EQ(ValueOf(Found({variables}), "rdzv-endpoint").substr(0, 3), "n0:");
  EXPECT_TRUE(Found({variables}).derived_port);
  variables["MASTER_PORT"] = "4321";
  EXPECT_EQ(ValueOf(Found({variables}), "rdzv-endpoint"), "n0:4321");
  EXPECT_FALSE(Found({variables}).derived_port);
}

// There mpirun's daemons are the tasks of a Slurm step, and the daemons start the processes.
TEST(OpenMpi, InsideOfASlurmJobItIsMpirunsPlaceThatCounts) {
  Variables variables = Captured("slurm_step");
  variables.merge(Captured("openmpi_two"));
  const LaunchContext context = Found({variables});
  EXPECT_EQ(context.scheduler, Scheduler::kOpenMpi);
  EXPECT_EQ(ValueOf(context, "rdzv-endpoint").substr(0, 10), "127.0.1.1:");
}

TEST(Pmi, TheBatchSystemsListSaysWhereTheyMeet) {
  const Variables files = {{"/nodes", "x1\nx1\nx2\nx2\n"}, {"/lsfhosts", "login\nc1\nc2\n"}};
  const LaunchContext hydra = Found({Captured("mpich"), {}, 0, files});
  EXPECT_EQ(hydra.scheduler, Scheduler::kPmi);
  EXPECT_EQ(hydra.hosts, (std::vector<std::string>{"x1", "x2"}));
  EXPECT_EQ(ValueOf(hydra, "rdzv-endpoint").substr(0, 3), "x1:");
  EXPECT_EQ(hydra.task_slot->local_rank, 0u);
  const LaunchContext pals = Found({Captured("pals"), {}, 0, files});
  EXPECT_EQ(pals.scheduler, Scheduler::kPals);
  EXPECT_EQ(ValueOf(pals, "node-rank"), "3");
  EXPECT_EQ(pals.task_slot->local_rank, 1u);
  const LaunchContext lsf = Found({Captured("lsf"), {}, 6, files});
  EXPECT_EQ(lsf.scheduler, Scheduler::kLsf);
  EXPECT_EQ(ValueOf(lsf, "rdzv-endpoint").substr(0, 3), "c1:");
  EXPECT_EQ(ValueOf(lsf, "nproc-per-node"), "6");
  EXPECT_FALSE(lsf.task_slot);
}

TEST(OpenMpi, OneVariableIsNoLauncher) {
  EXPECT_EQ(Found({{{"OMPI_COMM_WORLD_RANK", "0"}}}).scheduler, Scheduler::kNone);
}

TEST(Pmi, AProcessThatCannotTellItsPlaceIsRefused) {
  Variables variables = Captured("mpich");
  variables.erase("MPI_LOCALNRANKS");
  EXPECT_TRUE(Contains(Refusal({variables}), "MPI_LOCALNRANKS"));
}

TEST(PyTorchJob, ItsRanksAreNodes) {
  Variables variables = Captured("pytorchjob");
  const LaunchContext context = Found({variables, {}, 2});
  EXPECT_EQ(context.scheduler, Scheduler::kPyTorchJob);
  EXPECT_EQ(ValueOf(context, "rdzv-endpoint"), "train-master-0:23456");
  EXPECT_EQ(ValueOf(context, "node-rank"), "1");
  EXPECT_EQ(ValueOf(context, "nproc-per-node"), "2");
  variables["LOCAL_RANK"] = "0";  // Of processes, then.
  EXPECT_EQ(Found({variables}).scheduler, Scheduler::kNone);
}

TEST(Kubernetes, AnIndexedJobNeedsItsSize) {
  const Variables files = {{"/etc/hosts", "10.1.0.7\ttrain-2.svc.ns.svc.cluster.local\ttrain-2\n"}};
  const Case bare{Captured("kubernetes"), {}, 0, files};
  EXPECT_TRUE(Contains(Refusal(bare), "--nnodes=<completions>"));
  const LaunchContext context =
      Found({Captured("kubernetes"), {{"nnodes", "4", "command line"}}, 0, files});
  EXPECT_EQ(context.scheduler, Scheduler::kKubernetes);
  EXPECT_EQ(ValueOf(context, "rdzv-endpoint"), "train-0.svc.ns.svc.cluster.local:29400");
  EXPECT_EQ(ValueOf(context, "node-rank"), "2");
  EXPECT_EQ(ValueOf(context, "rdzv-id"), "train");
}

TEST(SageMaker, TheFirstOfTheSortedHostsIsNode0) {
  const LaunchContext context = Found({Captured("sagemaker")});
  EXPECT_EQ(context.scheduler, Scheduler::kSageMaker);
  EXPECT_EQ(Settings(context),
            "nproc-per-node=4 interface=eth0 nnodes=2 rdzv-id=resnet-2026 node-rank=1 "
            "rdzv-endpoint=algo-1");
  const Variables files = {{"/opt/ml/input/config/resourceconfig.json",
                            R"({"current_host":"algo-1","hosts":["algo-1","algo-2"]})"}};
  EXPECT_EQ(ValueOf(Found({{{"X", "1"}}, {}, 0, files}), "node-rank"), "0");
  EXPECT_FALSE(Refusal({{{"SM_HOSTS", "[\"a\"]"}, {"SM_CURRENT_HOST", "b"}}}).empty());
  const Variables no_texts = {{"/opt/ml/input/config/resourceconfig.json",
                               R"({"current_host":1,"hosts":["1"],"network_interface_name":[]})"}};
  EXPECT_TRUE(Contains(Refusal({{{"X", "1"}}, {}, 0, no_texts}), "does not name this host"));
}

TEST(LaunchContext, APlaceThatHostsGave) {
  const LaunchPlace place{.index = 2, .node = "n3", .hosts = {"n1", "n2", "n3"}, .word = "w"};
  const LaunchContext around = Found(
      {{{kLaunchPlace, Encode(place)}, {"SLURM_JOB_ID", "5"}}, {{"rdzv-endpoint", "n1", "f"}}});
  EXPECT_EQ(around.scheduler, Scheduler::kHosts);
  EXPECT_EQ(around.index, 2u);
  EXPECT_EQ(around.node, "n3");
  EXPECT_EQ(around.hosts, place.hosts);
  EXPECT_EQ(around.word, "w");
  EXPECT_FALSE(around.on_first_node);
  EXPECT_TRUE(around.settings.empty());
  const LaunchContext anywhere = Found({{{kLaunchPlace, Encode({std::nullopt, "n3", {"n3"}})}}});
  EXPECT_FALSE(anywhere.IsPlaced());
  for (const char* const text :
       {"1", "1 n2", "2 n2 n1,n2", "x n1 n1", "1 n2 ", "-1 n1 n1,n2", "0  n1", "0 n1 n1 w x"}) {
    EXPECT_NE(Refusal({{{kLaunchPlace, text}}}).find(kLaunchPlace), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ddprun

#include "proto/task_env.h"

#include <gtest/gtest.h>

#include "common/result_testing.h"
#include "proto/environment_testing.h"

namespace ddprun {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<WorkerEnv>> Read(const Variables& variables) {
  return FromTask(Environment(variables));
}

WorkerEnv Task(const Variables& variables) {
  const auto env = Read(variables);
  EXPECT_TRUE(env && *env) << (env ? "alone" : env.error().message);
  return env && *env ? **env : WorkerEnv{};
}

// Of srun -N2 --ntasks-per-node=2, task 3.
const Variables kStep = {{"SLURM_JOB_ID", "5"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_PROCID", "3"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                         {"SLURM_STEP_NODELIST", "n[3-4]"}};

TEST(TaskEnv, OfSrun) {
  const WorkerEnv env = Task(kStep);
  EXPECT_EQ(env.rank, 3u);
  EXPECT_EQ(env.world_size, 4u);
  EXPECT_EQ(env.local_rank, 1u);
  EXPECT_EQ(env.local_world_size, 2u);
  EXPECT_EQ(env.group_rank, 1u);
  EXPECT_EQ(env.group_world_size, 2u);
  EXPECT_EQ(env.master.host, "n3");
  EXPECT_EQ(env.run_id, "srun-5.0.0");
  EXPECT_FALSE(env.hosts_store);
  Variables first = kStep;
  first["SLURM_PROCID"] = first["SLURM_NODEID"] = first["SLURM_LOCALID"] = "0";
  EXPECT_TRUE(Task(first).hosts_store);
  EXPECT_EQ(Task(first).master, env.master);
  first["MASTER_ADDR"] = "other";
  first["MASTER_PORT"] = "77";
  EXPECT_EQ(Task(first).master, (Endpoint{"other", 77}));
}

TEST(TaskEnv, OneTaskIsAlone) {
  Variables one = kStep;
  one["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_FALSE(Read(one)->has_value());
  EXPECT_FALSE(Read({})->has_value());
  EXPECT_FALSE(Read({{"OMPI_COMM_WORLD_RANK", "0"}})->has_value());
  // A batch script's.
  EXPECT_FALSE(Read({{"SLURM_JOB_ID", "5"}, {"SLURM_PROCID", "0"}})->has_value());
}

TEST(TaskEnv, OfMpi) {
  Variables mpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                   {"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                   {"PMIX_NAMESPACE", "969539585"}};
  EXPECT_EQ(Task(mpi).master.host, "127.0.0.1");
  EXPECT_EQ(Task(mpi).local_rank, 2u);
  mpi.insert(kStep.begin(), kStep.end());  // mpirun within a job.
  EXPECT_EQ(Task(mpi).rank, 2u);
  mpi["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_TRUE(Fails(Read(mpi), "MASTER_ADDR"));
  mpi["MASTER_ADDR"] = "n0";
  EXPECT_EQ(Task(mpi).group_rank, 1u);
  const WorkerEnv hydra = Task(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(hydra.local_rank, 1u);
  EXPECT_EQ(Task({{"PALS_RANKID", "1"},
                  {"PALS_SIZE", "2"},
                  {"PALS_LOCAL_RANKID", "0"},
                  {"PALS_LOCAL_SIZE", "1"},
                  {"MASTER_ADDR", "x1"}})
                .group_rank,
            1u);
}

TEST(TaskEnv, VariablesThatContradictEachOtherAreRefused) {
  for (const auto& [name, value] :
       {std::pair("SLURM_PROCID", "4"), std::pair("SLURM_LOCALID", "2"),
        std::pair("SLURM_STEP_TASKS_PER_NODE", "x"), std::pair("SLURM_STEP_NODELIST", "n[2-1]")}) {
    Variables variables = kStep;
    variables[name] = value;
    EXPECT_FALSE(Read(variables)) << name;
  }
}

}  // namespace
}  // namespace ddprun

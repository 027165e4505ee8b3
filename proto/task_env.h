// The place of a worker that no agent started: a task of `srun ./train` or a process of `mpirun
// ./train`, by the variables these set. No agent restarts it, and its rank 0 hosts the store.
//
//   srun              SLURM_PROCID, SLURM_LOCALID, SLURM_STEP_*
//   Open MPI          OMPI_COMM_WORLD_*
//   MPICH, Intel MPI  PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   PALS              PALS_RANKID, PALS_LOCAL_RANKID, PALS_LOCAL_SIZE, PMI_SIZE
//
// The store is at MASTER_ADDR and MASTER_PORT where these are set; else at the first node of the
// step, or on this machine where all are, at a port made of the job's name.
#pragma once

#include <optional>

#include "common/result.h"
#include "proto/worker_env.h"

namespace ddprun {

// nullopt: a lone process. kInvalid: one of several, but its place is not known.
Result<std::optional<WorkerEnv>> FromTask(const GetEnv& get);

}  // namespace ddprun

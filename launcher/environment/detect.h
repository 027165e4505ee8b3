// The scheduler that started this process, and what follows for a launch: how many nodes, which one
// this is, where they meet, the name of the run.
//
// The one place that knows schedulers. Reads nothing but the variables and files it is given, looks
// no name up, starts nothing. It derives settings of ddprun's own flags, which the command line,
// the environment's DDPRUN_* and PET_* and the settings file override one by one; and facts that no
// flag has.
//
// The first that matches counts:
//
//   ddprun --hosts             has started this node, and every flag is its own (launch_place.h)
//   the command line, PET_*    they say where the nodes meet, or that there is one: nothing derived
//   inside a worker            of ddprun or torchrun: nothing is derived
//   Slurm step                 SLURM_STEP_ID (not beneath mpirun, whose daemon is Slurm's task)
//   Open MPI                   OMPI_COMM_WORLD_SIZE
//   MPICH, Intel MPI, PMI      PMI_SIZE
//   PALS                       PALS_RANKID; hosts from PBS_NODEFILE
//   LSF                        JSM_NAMESPACE_SIZE; hosts from LSB_DJOB_HOSTFILE
//   PyTorchJob                 RANK and WORLD_SIZE of nodes, without LOCAL_RANK
//   Kubernetes indexed job     JOB_COMPLETION_INDEX
//   SageMaker                  SM_HOSTS, or its resourceconfig.json
//   Slurm job without a step   one node: as it is; several: srun was forgotten
//   nothing
#pragma once

#include "launcher/environment/launch_context.h"

namespace ddprun {

// However it was started there: by a step, by mpirun, or by hand in salloc's shell.
bool IsInSlurmJob(const GetEnv& get_env);

// kInvalid: the context cannot be used; the error says what to do.
Result<LaunchContext> ReadContext(const ContextQuery& query);

}  // namespace ddprun

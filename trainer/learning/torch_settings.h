// How libtorch computes in this process. Torch-free.
#pragma once

namespace ddprun {

// Fixed for the process, before any other use of libtorch.
void SetThreads(int threads);

// Likewise. From then on an operation that cannot repeat its bits is an error.
void DemandDeterminism();

}  // namespace ddprun

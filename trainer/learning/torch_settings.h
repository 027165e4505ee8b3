// How libtorch computes in this process. Torch-free.
#pragma once

namespace ddprun {

// Threads of this process, and the library that multiplies matrices: before any other use of
// libtorch. With one thread it makes no pool of them, which a fork would lose.
void SetUpLibtorch(int threads);

// Likewise. From then on an operation that cannot repeat its bits is an error.
void DemandDeterminism();

}  // namespace ddprun

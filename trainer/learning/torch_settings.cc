#include "trainer/learning/torch_settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdlib>

#include "trainer/learning/matmul.h"

namespace ddprun {

void SetUpLibtorch(int threads) {
  at::set_num_threads(threads);
  if (OneDnnIsFaster()) {
    MultiplyWithOneDnn();
  }
}

void DemandDeterminism() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // Else cuBLAS is refused.
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

}  // namespace ddprun

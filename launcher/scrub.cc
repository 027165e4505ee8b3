#include "launcher/scrub.h"

#include <algorithm>
#include <array>

namespace ddprun {

bool BelongsToMpi(std::string_view variable) {
  constexpr std::array<std::string_view, 12> kPrefixes = {
      "OMPI_", "PMI_",  "PMIX_", "MPI_",  "HYDRA_",    "HYDI_",
      "PRTE_", "OPAL_", "ORTE_", "MPIR_", "MV2_COMM_", "I_MPI_HYDRA_"};
  return variable == "HYDRA" || variable == "MPIEXEC_HOSTNAME" ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

}  // namespace ddprun

#include "launcher/scrub.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/text.h"

namespace ddprun {

bool BelongsToMpi(std::string_view variable) {
  constexpr std::array<std::string_view, 12> kPrefixes = {
      "OMPI_", "PMI_",  "PMIX_", "MPI_",  "HYDRA_",    "HYDI_",
      "PRTE_", "OPAL_", "ORTE_", "MPIR_", "MV2_COMM_", "I_MPI_HYDRA_"};
  return variable == "HYDRA" || variable == "MPIEXEC_HOSTNAME" ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

bool IsSecret(std::string_view name) {
  const std::string capitals = Uppercase(std::string(name));
  constexpr std::array<std::string_view, 6> kParts = {"TOKEN",      "SECRET", "PASSW",
                                                      "CREDENTIAL", "APIKEY", "_KEY"};
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return capitals.find(part) != std::string::npos;
  });
}

}  // namespace ddprun

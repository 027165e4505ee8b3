#include "launcher/scrub.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

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
  std::string capitals(name);
  std::transform(capitals.begin(), capitals.end(), capitals.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  constexpr std::array<std::string_view, 6> kParts = {"TOKEN",      "SECRET", "PASSW",
                                                      "CREDENTIAL", "APIKEY", "_KEY"};
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return capitals.find(part) != std::string::npos;
  });
}

}  // namespace ddprun

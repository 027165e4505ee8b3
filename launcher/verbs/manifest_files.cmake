# The manifests that `ddprun k8s-manifest` fills in, as a header in the build folder.
foreach(kind elastic job jobset trainjob)
  set(file ${CMAKE_SOURCE_DIR}/examples/kubernetes/${kind}.yaml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} ${kind}_yaml)
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/manifest_files.h.in ${CMAKE_BINARY_DIR}/generated/launcher/verbs/manifest_files.h @ONLY)

# Files of examples/ that ddprun prints, as a header in the build folder: what `ddprun k8s-manifest` and `ddprun slurm-script`
# fill in, the programs of `ddprun example`, and the project of `ddprun new`.
foreach(example kubernetes/elastic.yaml kubernetes/job.yaml kubernetes/jobset.yaml kubernetes/trainjob.yaml
                slurm/array.sbatch slurm/elastic.sbatch slurm/whole-job.sbatch
                ddp.py elastic.py fsdp.py lightning_trainer.py cpp/mlp/CMakeLists.txt cpp/mlp/main.cc)
  set(file ${PROJECT_SOURCE_DIR}/examples/${example})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  string(MAKE_C_IDENTIFIER ${example} name)
  file(READ ${file} ${name})
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/example_files.h.in ${PROJECT_BINARY_DIR}/generated/launcher/verbs/example_files.h @ONLY)

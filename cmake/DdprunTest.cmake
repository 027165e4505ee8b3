# What a test takes of the machine is said in quarters of a core (ctest's PROCESSORS): scripts/test.sh
# hands out four for each core. 1: it waits; 4: it computes; 8: it trains on two workers.
if(DDPRUN_TESTS)
  find_package(GTest REQUIRED)
  add_custom_target(unit_tests)
endif()

# Two tests of one name, in two folders, are one to whoever asks for it and to what is said of it.
function(ddprun_only_test name)
  get_property(names GLOBAL PROPERTY ddprun_tests)
  if(name IN_LIST names)
    message(FATAL_ERROR "there is a test ${name} already")
  endif()
  set_property(GLOBAL APPEND PROPERTY ddprun_tests ${name})
endfunction()

# ddprun_test(NAME SOURCES files... LIBRARIES targets... [LABEL label] [ARGS ...] [TIMEOUT seconds]
#             [QUARTERS n] [BATCHES n])
# One GoogleTest binary, one ctest entry. BATCHES: as many compilations as ddprun_in_batches makes. The label is "unit" unless another is given; units are
# part of `scripts/test.sh --quick`.
# With -DDDPRUN_SANITIZE=thread there are none of what holds gRPC or libtorch: these are compiled
# without it, and it would see races where their locks are. Target `unit_tests`: all that there are.
set(not_for_threads agent launcher rendezvous ddprun_proto trainer trainer_run trainer_torch)
function(ddprun_test name)
  if(NOT DDPRUN_TESTS)
    return()
  endif()
  cmake_parse_arguments(T "" "LABEL;TIMEOUT;QUARTERS;BATCHES" "SOURCES;LIBRARIES;ARGS" ${ARGN})
  if(NOT T_LABEL)
    set(T_LABEL unit quick)
  endif()
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "a test has no ${T_UNPARSED_ARGUMENTS} (cmake/DdprunTest.cmake)")
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(NOT T_QUARTERS)
    set(T_QUARTERS 2)
  endif()
  if(DDPRUN_SANITIZE STREQUAL "thread")
    foreach(library ${T_LIBRARIES})
      if(library IN_LIST not_for_threads)
        return()
      endif()
    endforeach()
  endif()
  add_executable(${name} ${T_SOURCES})
  if(T_BATCHES)
    ddprun_in_batches(${name} ${T_BATCHES})
  endif()
  add_dependencies(unit_tests ${name})
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  ddprun_only_test(${name})
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT}
                       PROCESSORS ${T_QUARTERS})
endfunction()

# ddprun_run_test(FILE.py LABEL label [TIMEOUT seconds] [PYTHON python3] [QUARTERS n] [COST seconds]
#                 [AT_ONCE n] [WHOLE])
# One Python file of tests that start the real binaries; python3's standard library is all it needs,
# unless PYTHON names another one. COST: about how long it takes, so that the long ones begin first.
# AT_ONCE: so many of its tests side by side; for those that mostly wait.
# WHOLE: too slow for each run, it takes part with ctest -C whole.
function(ddprun_run_test file)
  cmake_parse_arguments(T "WHOLE" "LABEL;TIMEOUT;PYTHON;QUARTERS;COST;AT_ONCE" "" ${ARGN})
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "a test has no ${T_UNPARSED_ARGUMENTS} (cmake/DdprunTest.cmake)")
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(NOT T_QUARTERS)
    set(T_QUARTERS 1)
  endif()
  if(NOT T_COST)
    set(T_COST 10)
  endif()
  if(NOT T_AT_ONCE)
    set(T_AT_ONCE 1)
  endif()
  if(NOT T_PYTHON)
    set(T_PYTHON ${Python3_EXECUTABLE})
  endif()
  cmake_path(GET file STEM name)
  set(when "")
  if(T_WHOLE)
    set(when CONFIGURATIONS whole)
  endif()
  ddprun_only_test(${name})
  add_test(NAME ${name}
           COMMAND ${T_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/support/run.py --at-once=${T_AT_ONCE}
                   ${CMAKE_CURRENT_SOURCE_DIR}/${file}
           ${when})
  set(binaries "DDPRUN=$<TARGET_FILE:ddprun>" "DDPRUN_FAKE_WORKER=$<TARGET_FILE:fake_worker>"
               "DDPRUN_HOLD_CALLS=$<TARGET_FILE:hold_calls>")
  if(TARGET ddprun-train)
    list(APPEND binaries "DDPRUN_TRAIN=$<TARGET_FILE:ddprun-train>")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${T_LABEL} TIMEOUT ${T_TIMEOUT}
                       PROCESSORS ${T_QUARTERS} COST ${T_COST} ENVIRONMENT "${binaries}")
endfunction()

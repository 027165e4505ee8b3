# Headers are most of what compiling costs here, so libraries are compiled in batches of files: half of
# the time. A name in an unnamed namespace must then be the only one in its batch (the compiler says
# so). -DDDPRUN_BATCHES=OFF compiles each file by itself, which is quicker where one file is changed
# again and again. That each includes what it uses is seen by clang-tidy, which reads it by itself.
option(DDPRUN_BATCHES "Compile the files of libraries in batches" ON)

# ddprun_in_batches(TARGET COUNT [ALSO file...] [APART file...])
#   COUNT   batches, each of about as many files
#   ALSO    files of one batch more, which want other headers than the rest
#   APART   files that are compiled by themselves, besides those that have options of their own
# Not CMake's own unity build: its batches name files by where the clone lies, so that no second clone
# would find them in the compilers' cache.
function(ddprun_in_batches target count)
  cmake_parse_arguments(B "" "" "ALSO;APART" ${ARGN})
  if(NOT DDPRUN_BATCHES)
    return()
  endif()
  # Of types in unnamed namespaces GCC warns only where it takes their file for a header.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  get_target_property(files ${target} SOURCES)
  set(together ${files})
  foreach(file ${files})
    foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS)
      get_source_file_property(value ${file} ${property})
      if(value)
        list(APPEND B_APART ${file})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES B_APART)
  list(REMOVE_ITEM together ${B_APART} ${B_ALSO})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
             OUTPUT_VARIABLE folder)
  set(sources ${B_APART})
  list(LENGTH together all)
  set(last ${count})
  if(B_ALSO)
    math(EXPR last "${count} + 1")
  endif()
  foreach(batch RANGE 1 ${last})
    if(batch GREATER count)
      set(batched ${B_ALSO})
    else()
      math(EXPR first "${all} * (${batch} - 1) / ${count}")
      math(EXPR size "${all} * ${batch} / ${count} - ${first}")
      list(SUBLIST together ${first} ${size} batched)
    endif()
    list(TRANSFORM batched REPLACE "(.+)" "#include \"${folder}/\\1\"\n")
    list(JOIN batched "" text)
    set(path ${PROJECT_BINARY_DIR}/generated/batches/${target}_${batch}.cc)
    file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)  # Left alone where it is the same.
    list(APPEND sources ${path})
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
endfunction()

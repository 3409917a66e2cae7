# A folder of src/distbelief is a library: distbelief_folder(NAME [TORCH] [HOT|COLD] SOURCES a.cc ... LINKS dep ...).
# tools/check_includes holds its sources to the same edges. HOT: its loops are what a step takes. COLD: it says what is to be
# done, and others do it; optimising that would take a third of its compile time and be seen by nobody.
# Unit tests stand beside their sources: distbelief_unit_tests(NAME [TORCH] [HOT] SOURCES a_test.cc ... LINKS ...). HOT: they
# compute what they compare with.

# One precompiled <torch/torch.h> for all torch sources: about 17 s each without it.
function(distbelief_torch_pch target)
  if(NOT TARGET distbelief_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/distbelief_pch.cc "")
    add_library(distbelief_pch OBJECT ${CMAKE_BINARY_DIR}/distbelief_pch.cc)
    target_link_libraries(distbelief_pch PRIVATE distbelief_flags distbelief_torch)
    target_precompile_headers(distbelief_pch PRIVATE <torch/torch.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM distbelief_pch)
  # Half of what a torch source takes is the header's, precompiled or not: twice as many at a time.
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 24)
  # The header is precompiled with the libraries' -fPIC; gcc refuses it under a program's -fPIE.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# A precompiled header of another level of optimisation is as good, but for none at all.
function(distbelief_optimise target level)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE ${level})
  endif()
endfunction()

function(distbelief_folder name)
  cmake_parse_arguments(ARG "TORCH;HOT;COLD" "" "SOURCES;LINKS" ${ARGN})
  set(target distbelief_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${ARG_LINKS} PRIVATE $<BUILD_INTERFACE:distbelief_flags>)
  if(ARG_TORCH)
    target_link_libraries(${target} PUBLIC distbelief_torch)
    distbelief_torch_pch(${target})
  endif()
  if(ARG_HOT)
    distbelief_optimise(${target} -O3)
  elseif(ARG_COLD)
    distbelief_optimise(${target} -O1)
  endif()
endfunction()

function(distbelief_program_settings target)
  target_link_libraries(${target} PRIVATE distbelief_flags)
  if(OPENBLAS_OPENMP_DIR)
    # DT_RPATH, not DT_RUNPATH: it must also win for libtorch's own search for libopenblas and libblas.
    set_target_properties(${target} PROPERTIES BUILD_RPATH "${OPENBLAS_OPENMP_DIR}" INSTALL_RPATH "${OPENBLAS_OPENMP_DIR}")
    target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  endif()
endfunction()

function(distbelief_unit_tests name)
  if(NOT DISTBELIEF_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "TORCH;HOT" "" "SOURCES;LINKS" ${ARGN})
  set(target ${name}_test)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LINKS} GTest::gtest_main)
  distbelief_program_settings(${target})
  if(ARG_TORCH)
    target_link_libraries(${target} PRIVATE distbelief_torch)
    distbelief_torch_pch(${target})
  endif()
  if(ARG_TORCH OR ARG_HOT)
    distbelief_optimise(${target} -O1)
  else()
    distbelief_optimise(${target} -O0)  # what is tested is optimised, tests need not be
  endif()
  set(tests_file ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM BYPRODUCTS ${tests_file}
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${target}> -D NAME=${name} -D TESTS_FILE=${tests_file}
      -P ${PROJECT_SOURCE_DIR}/cmake/discover_suites.cmake)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake
    "if(EXISTS [=[${tests_file}]=])\n  include([=[${tests_file}]=])\nelse()\n"
    "  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
endfunction()

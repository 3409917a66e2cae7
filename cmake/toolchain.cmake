# Compiler, warnings, sanitizers, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# -O2 unless said otherwise; folders of inner loops say HOT, those that only order others about COLD (cmake/folders.cmake).
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # A precompiled header changes its time stamp with every build; ccache may look past that.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${CCACHE_PROGRAM})
endif()

add_library(distbelief_flags INTERFACE)
target_compile_options(distbelief_flags INTERFACE
  -Wall -Wextra $<$<BOOL:${DISTBELIEF_WERROR}>:-Werror>
  # Results are defined by explicit fma calls, never by what the compiler chose to contract.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 reports overlaps and overflows inside std::string and fmt that cannot happen (gcc bug 105651).
  # What may be uninitialised depends on what was inlined: other flags, other findings; most are std::optional's.
  target_compile_options(distbelief_flags INTERFACE -fpch-preprocess -Wno-restrict -Wno-stringop-overflow
    -Wno-array-bounds -Wno-error=maybe-uninitialized)
  if(CMAKE_UNITY_BUILD)  # a source that another one includes is no header
    target_compile_options(distbelief_flags INTERFACE -Wno-subobject-linkage)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND DISTBELIEF_SANITIZE)  # checks keep loops from being vectorised
  target_compile_options(distbelief_flags INTERFACE -Wno-pass-failed)
endif()
foreach(sanitizer IN LISTS DISTBELIEF_SANITIZE)
  target_compile_options(distbelief_flags INTERFACE -fsanitize=${sanitizer} -fno-omit-frame-pointer)
  target_link_options(distbelief_flags INTERFACE -fsanitize=${sanitizer})
endforeach()

# cmake --install: headers, libraries, the program, and find_package(DistBelief) -> distbelief::distbelief, and
# distbelief::elastic for who wants it.
include(CMakePackageConfigHelpers)

add_library(distbelief_library INTERFACE)
add_library(distbelief::distbelief ALIAS distbelief_library)
target_link_libraries(distbelief_library INTERFACE distbelief_train)
set_target_properties(distbelief_library PROPERTIES EXPORT_NAME distbelief)
add_library(distbelief::elastic ALIAS distbelief_elastic)
set_target_properties(distbelief_elastic PROPERTIES EXPORT_NAME elastic)
add_library(distbelief::program ALIAS distbelief_program)
set_target_properties(distbelief_program PROPERTIES EXPORT_NAME program)

install(TARGETS distbelief_library distbelief_base distbelief_data distbelief_model distbelief_compute
    distbelief_compute_torch distbelief_comm distbelief_checkpoint distbelief_report distbelief_strategy
    distbelief_train distbelief_torch distbelief_rpc distbelief_server distbelief_cluster distbelief_attendance distbelief_elastic
    distbelief_worker distbelief_cli distbelief_control distbelief_program
  EXPORT DistBeliefTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The program does not use it; cmake --install wants it also where the program alone was built, as by quickstart.sh.
add_dependencies(distbelief distbelief_elastic)
install(EXPORT DistBeliefTargets NAMESPACE distbelief:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/DistBelief)
# What a program on the library includes, and all that this includes. Folders that only the program needs have but a few
# such headers; those of tests have none.
install(DIRECTORY src/distbelief DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN "cli" EXCLUDE PATTERN "cluster" EXCLUDE PATTERN "rpc" EXCLUDE PATTERN "server" EXCLUDE PATTERN "train" EXCLUDE
  PATTERN "elastic" EXCLUDE
  PATTERN "damage.h" EXCLUDE PATTERN "file_size_limit.h" EXCLUDE PATTERN "image_set_fixture.h" EXCLUDE
  PATTERN "refusal.h" EXCLUDE PATTERN "sample_parts.h" EXCLUDE PATTERN "sample_state.h" EXCLUDE
  PATTERN "scratch_folder.h" EXCLUDE PATTERN "thread_link.h" EXCLUDE PATTERN "thread_training.h" EXCLUDE
  PATTERN "written_images.h" EXCLUDE)
foreach(header cli/program elastic/tracked train/data_parallel train/pipeline_parallel train/state_file)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES src/distbelief/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/distbelief/${folder})
endforeach()
configure_package_config_file(cmake/DistBeliefConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/DistBeliefConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/DistBelief)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/DistBeliefConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/DistBeliefConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/DistBeliefConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/DistBelief)

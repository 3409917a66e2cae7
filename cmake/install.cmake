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
    distbelief_compute_torch distbelief_comm distbelief_checkpoint distbelief_report distbelief_tasks distbelief_mesh
    distbelief_mesh_torch distbelief_run distbelief_planner distbelief_planner_torch distbelief_replica distbelief_mode
    distbelief_train distbelief_torch
    distbelief_rpc distbelief_server distbelief_modes distbelief_cluster distbelief_attendance distbelief_process
    distbelief_elastic distbelief_job distbelief_cli distbelief_control distbelief_program
  EXPORT DistBeliefTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The program does not use it; cmake --install wants it also where the program alone was built, as by quickstart.sh.
add_dependencies(distbelief distbelief_elastic)
install(EXPORT DistBeliefTargets NAMESPACE distbelief:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/DistBelief)
# What a program on the library includes, and all that this includes. Folders that only the program needs have but a few
# such headers; those of tests have none.
install(DIRECTORY src/distbelief DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN "cli" EXCLUDE PATTERN "cluster" EXCLUDE PATTERN "elastic" EXCLUDE PATTERN "job" EXCLUDE PATTERN "modes" EXCLUDE
  PATTERN "planner" EXCLUDE PATTERN "process" EXCLUDE PATTERN "replica" EXCLUDE PATTERN "rpc" EXCLUDE PATTERN "run" EXCLUDE PATTERN "server" EXCLUDE
  PATTERN "tasks" EXCLUDE PATTERN "testing" EXCLUDE PATTERN "train" EXCLUDE PATTERN "scratch_folder.h" EXCLUDE
  # Of distbelief_mesh_torch:
  PATTERN "balancer.h" EXCLUDE PATTERN "drift.h" EXCLUDE PATTERN "lane_gather.h" EXCLUDE PATTERN "lane_runner.h" EXCLUDE
  PATTERN "lane_team.h" EXCLUDE PATTERN "parameter_link.h" EXCLUDE PATTERN "pipeline_team.h" EXCLUDE
  PATTERN "replica_window.h" EXCLUDE PATTERN "stage*.h" EXCLUDE PATTERN "mesh/team.h" EXCLUDE PATTERN "tensor_sums.h" EXCLUDE)
foreach(header cli/program elastic/tracked run/state_file train/data_parallel train/pipeline_parallel)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES src/distbelief/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/distbelief/${folder})
endforeach()
configure_package_config_file(cmake/DistBeliefConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/DistBeliefConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/DistBelief)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/DistBeliefConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/DistBeliefConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/DistBeliefConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/DistBelief)

# Everything comes from Debian; each library for one job.
find_package(Threads REQUIRED)
set(MPI_CXX_SKIP_MPICXX TRUE)  # the C interface alone
find_package(MPI REQUIRED COMPONENTS CXX)  # -DMPI_CXX_COMPILER=mpicxx.mpich picks MPICH
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpiexec_version ERROR_QUIET)
if(mpiexec_version MATCHES "Open MPI|OpenRTE")
  set(DISTBELIEF_OPEN_MPI TRUE)
else()
  set(DISTBELIEF_OPEN_MPI FALSE)
endif()
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(LibArchive REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
find_package(CURL REQUIRED)
# gRPC as plain libraries: its package file asks for much more of abseil than is needed to link.
find_library(GRPCXX_LIBRARY grpc++ REQUIRED)
find_library(GRPC_LIBRARY grpc REQUIRED)
find_library(GPR_LIBRARY gpr REQUIRED)
find_library(ABSL_SYNCHRONIZATION_LIBRARY absl_synchronization REQUIRED)  # used by the headers of gRPC
find_library(PROTOBUF_LIBRARY protobuf REQUIRED)
set(DISTBELIEF_GRPC_LIBRARIES ${GRPCXX_LIBRARY} ${GRPC_LIBRARY} ${GPR_LIBRARY} ${ABSL_SYNCHRONIZATION_LIBRARY}
  ${PROTOBUF_LIBRARY})
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# libtorch: Debian's own package file pulls in caffe2's dependencies, which are not needed to link.
find_path(TORCH_INCLUDE_DIR torch/csrc/api/include/torch/torch.h REQUIRED)
find_library(TORCH_LIBRARY torch REQUIRED)
find_library(TORCH_CPU_LIBRARY torch_cpu REQUIRED)
find_library(C10_LIBRARY c10 REQUIRED)
add_library(distbelief_torch INTERFACE)
target_include_directories(distbelief_torch SYSTEM INTERFACE
  $<BUILD_INTERFACE:${TORCH_INCLUDE_DIR}>
  $<BUILD_INTERFACE:${TORCH_INCLUDE_DIR}/torch/csrc/api/include>)
target_link_libraries(distbelief_torch INTERFACE
  $<BUILD_INTERFACE:${TORCH_LIBRARY}> $<BUILD_INTERFACE:${TORCH_CPU_LIBRARY}> $<BUILD_INTERFACE:${C10_LIBRARY}>)
if(NOT DISTBELIEF_SANITIZE)  # whose library has to be the first
  # Symbols are looked for in a program's libraries in their order, and Debian's libtorch brings 300 of them: with those
  # that have nearly all of the symbols in front, a program starts with 0.6 instead of 0.8 s of processor time.
  target_link_options(distbelief_torch INTERFACE
    "$<BUILD_INTERFACE:SHELL:-Wl,--push-state,--no-as-needed ${TORCH_CPU_LIBRARY} ${C10_LIBRARY} -lstdc++ -Wl,--pop-state>")
endif()

# The OpenMP build of OpenBLAS first on the library path of our programs: with the pthread build the
# result's bits depend on the number of threads at start, and several workers get in each other's way.
find_library(OPENBLAS_OPENMP_LIBRARY openblas
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
if(OPENBLAS_OPENMP_LIBRARY)
  get_filename_component(OPENBLAS_OPENMP_DIR ${OPENBLAS_OPENMP_LIBRARY} DIRECTORY)
else()
  message(WARNING "OpenBLAS with OpenMP not found: apt-get install libopenblas-openmp-dev")
endif()

if(DISTBELIEF_TESTS)
  find_package(GTest REQUIRED)
endif()
if(DISTBELIEF_BENCH)
  find_package(benchmark REQUIRED)
endif()

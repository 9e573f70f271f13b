# gRPC, protobuf, nlohmann-json and GoogleTest: from the system, or from build/prefix, which `make bootstrap` fills
# with the distribution's unpacked packages where nobody may install any.
#
# Libraries are looked up by name: Debian ships no CMake configuration for protobuf, and pkg-config files name absolute
# paths that are wrong in an unpacked prefix.
set(MESHNET_PREFIX "${MESHNET_ROOT}/build/prefix")
add_library(meshnet_dependencies INTERFACE)

if(EXISTS "${MESHNET_PREFIX}/usr")
  list(PREPEND CMAKE_PREFIX_PATH "${MESHNET_PREFIX}/usr")
  set(prefix_folders "")
  foreach(folder usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} usr/lib lib/${CMAKE_LIBRARY_ARCHITECTURE})
    if(EXISTS "${MESHNET_PREFIX}/${folder}")
      list(APPEND prefix_folders "${MESHNET_PREFIX}/${folder}")
      # RPATH rather than RUNPATH: only RPATH is used for the libraries that the libraries need.
      target_link_options(meshnet_dependencies INTERFACE "-Wl,-rpath,${MESHNET_PREFIX}/${folder}")
    endif()
  endforeach()
  target_link_options(meshnet_dependencies INTERFACE "-Wl,--disable-new-dtags")
  # Headers that differ by architecture (OpenSSL's configuration) lie in a folder that only the system's own is searched.
  if(EXISTS "${MESHNET_PREFIX}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}")
    target_include_directories(meshnet_dependencies SYSTEM INTERFACE
      "${MESHNET_PREFIX}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}")
  endif()
  list(JOIN prefix_folders ":" MESHNET_PREFIX_LIBRARY_PATH)
endif()

# absl_synchronization: gRPC headers use its mutex inline. ssl and crypto: the libraries that gRPC uses, for the worker's
# certificate and digests.
foreach(name grpc++ grpc gpr protobuf absl_synchronization ssl crypto)
  find_library(MESHNET_LIBRARY_${name} ${name} REQUIRED)
  target_link_libraries(meshnet_dependencies INTERFACE "${MESHNET_LIBRARY_${name}}")
endforeach()
find_path(MESHNET_GRPC_INCLUDE grpcpp/grpcpp.h REQUIRED)
find_path(MESHNET_PROTOBUF_INCLUDE google/protobuf/message.h REQUIRED)
find_path(MESHNET_OPENSSL_INCLUDE openssl/ssl.h REQUIRED)
find_path(MESHNET_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
target_include_directories(meshnet_dependencies SYSTEM INTERFACE
  "${MESHNET_GRPC_INCLUDE}" "${MESHNET_PROTOBUF_INCLUDE}" "${MESHNET_OPENSSL_INCLUDE}" "${MESHNET_JSON_INCLUDE}")

find_program(MESHNET_PROTOC protoc REQUIRED)
find_program(MESHNET_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
target_link_libraries(meshnet_dependencies INTERFACE Threads::Threads)

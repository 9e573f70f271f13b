# C++ messages and services from shared/meshnet/v1/*.proto, by the same distribution's protoc as the libraries.
# control.proto and relay.proto are spoken by Python processes only.
file(GLOB protos CONFIGURE_DEPENDS "${MESHNET_ROOT}/shared/meshnet/v1/*.proto")
list(FILTER protos EXCLUDE REGEX "/(control|relay)\\.proto$")

set(generated_root "${CMAKE_CURRENT_BINARY_DIR}/generated_proto")
file(MAKE_DIRECTORY "${generated_root}")
set(protoc "${MESHNET_PROTOC}")
if(MESHNET_PREFIX_LIBRARY_PATH)
  set(protoc "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${MESHNET_PREFIX_LIBRARY_PATH}" "${MESHNET_PROTOC}")
endif()

set(generated_sources "")
foreach(proto IN LISTS protos)
  get_filename_component(name "${proto}" NAME_WE)
  set(stem "${generated_root}/meshnet/v1/${name}")
  set(outputs "${stem}.pb.cc" "${stem}.pb.h" "${stem}.grpc.pb.cc" "${stem}.grpc.pb.h")
  # Every proto depends on all of them: imports between them are then always right, and there are few.
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND ${protoc} "--proto_path=${MESHNET_ROOT}/shared" "--cpp_out=${generated_root}"
      "--grpc_out=${generated_root}" "--plugin=protoc-gen-grpc=${MESHNET_GRPC_PLUGIN}" "${proto}"
    DEPENDS ${protos}
    COMMENT "protoc ${name}.proto"
    VERBATIM)
  list(APPEND generated_sources ${outputs})
endforeach()

if(generated_sources)
  add_library(meshnet_proto STATIC ${generated_sources})
  target_compile_features(meshnet_proto PUBLIC cxx_std_20)
  target_include_directories(meshnet_proto SYSTEM PUBLIC "${generated_root}")
  target_link_libraries(meshnet_proto PUBLIC meshnet_dependencies)
else()
  add_library(meshnet_proto INTERFACE)
endif()

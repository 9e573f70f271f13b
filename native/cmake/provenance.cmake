# Compile what provenance.json promises into the worker (`meshnet-worker --version`, contracts, exact class).
set(manifest_path "${CMAKE_CURRENT_SOURCE_DIR}/provenance.json")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${manifest_path}")
file(READ "${manifest_path}" manifest)
foreach(field commit llama_version ggml_version)
  string(JSON MESHNET_UPSTREAM_${field} GET "${manifest}" upstream ${field})
endforeach()
string(JSON MESHNET_PATCHED_SHA256 GET "${manifest}" tree patched_sha256)

file(STRINGS "${MESHNET_ROOT}/shared/meshnet/__init__.py" version_line REGEX "^__version__ = ")
if(NOT version_line MATCHES "\"([0-9][^\"]*)\"")
  message(FATAL_ERROR "shared/meshnet/__init__.py: no __version__")
endif()
set(MESHNET_VERSION "${CMAKE_MATCH_1}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${MESHNET_ROOT}/shared/meshnet/__init__.py")

list(JOIN MESHNET_INSTRUCTION_SETS " " MESHNET_INSTRUCTION_SETS_TEXT)
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/cmake/build_facts.h.in"
  "${CMAKE_CURRENT_BINARY_DIR}/generated/build_facts.h" @ONLY)

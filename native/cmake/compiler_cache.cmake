# ccache where the machine has it. Paths are made relative to the checkout, so that another checkout hits the same
# entries; the working folder is left out of the hash for the same reason.
find_program(MESHNET_CCACHE ccache)
if(MESHNET_CCACHE)
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${MESHNET_ROOT}" CCACHE_NOHASHDIR=1 "${MESHNET_CCACHE}")
  foreach(language C CXX)
    set(CMAKE_${language}_COMPILER_LAUNCHER "${launcher}")
  endforeach()
endif()

# llama.cpp from build/llama.cpp (see tools/llama_source.py), as shared libraries in one folder: the worker and the
# Python bindings load the same files.
set(MESHNET_LLAMA_SOURCE "${MESHNET_ROOT}/build/llama.cpp")
if(NOT EXISTS "${MESHNET_LLAMA_SOURCE}/CMakeLists.txt")
  message(FATAL_ERROR "build/llama.cpp is missing; run `make native`")
endif()
file(READ "${CMAKE_CURRENT_SOURCE_DIR}/provenance.json" manifest)
string(JSON upstream_commit GET "${manifest}" upstream commit)

# Upstream would put the commit of *this* repository into its sources, and so recompile at each of our commits.
set(LLAMA_BUILD_COMMIT "${upstream_commit}")
set(LLAMA_BUILD_NUMBER 0)
set(GIT_EXE OFF CACHE STRING "no git for ggml" FORCE)

set(BUILD_SHARED_LIBS ON CACHE BOOL "" FORCE)
foreach(part COMMON TESTS TOOLS EXAMPLES SERVER APP UI)
  set(LLAMA_BUILD_${part} OFF CACHE BOOL "" FORCE)
endforeach()
set(LLAMA_OPENSSL OFF CACHE BOOL "" FORCE)
set(LLAMA_USE_PREBUILT_UI OFF CACHE BOOL "" FORCE)
if(MESHNET_LLAMA_TOOLS)
  set(LLAMA_BUILD_COMMON ON CACHE BOOL "" FORCE)
  set(LLAMA_BUILD_TOOLS ON CACHE BOOL "" FORCE)
  set(LLAMA_BUILD_SERVER ON CACHE BOOL "" FORCE)
  set(GGML_RPC ON CACHE BOOL "" FORCE)
endif()

set(MESHNET_INSTRUCTION_SETS "")
set(GGML_CCACHE OFF CACHE BOOL "" FORCE)
if(NOT MESHNET_UPSTREAM_DEFAULTS)
  # Explicit instruction sets instead of this machine's: a cached native object is an illegal instruction elsewhere.
  # OpenMP's barriers spin, and two workers that spin on the same cores collapse.
  set(GGML_NATIVE OFF CACHE BOOL "" FORCE)
  set(GGML_OPENMP OFF CACHE BOOL "" FORCE)
  set(GGML_CPU_ALL_VARIANTS OFF CACHE BOOL "" FORCE)
  set(GGML_CPU_REPACK ON CACHE BOOL "" FORCE)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(MESHNET_INSTRUCTION_SETS SSE42 AVX AVX2 FMA F16C BMI2)
    foreach(instruction_set IN LISTS MESHNET_INSTRUCTION_SETS)
      set(GGML_${instruction_set} ON CACHE BOOL "" FORCE)
    endforeach()
  endif()
endif()

# EXCLUDE_FROM_ALL: only what the worker links (libllama and the ggml libraries) is built.
add_subdirectory("${MESHNET_LLAMA_SOURCE}" "${CMAKE_BINARY_DIR}/llama.cpp" EXCLUDE_FROM_ALL)

if(MESHNET_UPSTREAM_DEFAULTS)
  # -march=native says nothing of the machine it was compiled on.
  set_target_properties(ggml-cpu PROPERTIES C_COMPILER_LAUNCHER "" CXX_COMPILER_LAUNCHER "")
  # Virtual machines may offer AMX and then stop a program at a tile instruction, because its tiles' configuration is lost.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    target_compile_options(ggml-cpu PRIVATE -mno-amx-tile -mno-amx-int8 -mno-amx-bf16)
  endif()
endif()

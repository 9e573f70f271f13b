# What every target of our own is compiled with; llama.cpp and generated code are not ours and are left out.
add_library(meshnet_own INTERFACE)
target_compile_features(meshnet_own INTERFACE cxx_std_20)
target_compile_options(meshnet_own INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror -g1 -fno-omit-frame-pointer)
if(MESHNET_SANITIZE)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
  if(MESHNET_FUZZ)
    list(APPEND sanitizers -fsanitize=fuzzer-no-link)
  endif()
  target_compile_options(meshnet_own INTERFACE ${sanitizers})
  target_link_options(meshnet_own INTERFACE ${sanitizers})
endif()

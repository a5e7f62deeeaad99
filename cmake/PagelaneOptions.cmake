# Warnings and sanitizers: ours alone, never exported to a consumer.
add_library(pl_options INTERFACE)
target_compile_options(pl_options INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wvla
    -fno-strict-aliasing>
  $<$<AND:$<BOOL:${PAGELANE_WERROR}>,$<COMPILE_LANGUAGE:C>>:-Werror>)
# What needs value ranges, which sanitizers hide, is for the other builds.
if(PAGELANE_SANITIZE)
  target_compile_options(pl_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wno-format-truncation>)
else()
  target_compile_options(pl_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wconversion>)
endif()
target_compile_definitions(pl_options INTERFACE _POSIX_C_SOURCE=200809L)
target_include_directories(pl_options INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/include)
if(PAGELANE_SANITIZE)
  target_compile_options(pl_options INTERFACE
    -fsanitize=${PAGELANE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(pl_options INTERFACE -fsanitize=${PAGELANE_SANITIZE})
endif()

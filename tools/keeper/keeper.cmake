# SPDX-License-Identifier: GPL-2.0-only
# The keeper of a process's snapshots, which cr_snapshot and cr_pause start and ask.
if(NOT TARGET tool_keeper)
  set(keeper_sources asking.cpp exchange.cpp image_file.cpp keeper.cpp pause_command.cpp place.cpp snapshot_options.cpp states.cpp
    tree.cpp)
  list(TRANSFORM keeper_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
  add_library(tool_keeper STATIC ${keeper_sources})
  target_include_directories(tool_keeper PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  target_link_libraries(tool_keeper PUBLIC tool_common)
  for_executables(tool_keeper)
  target_precompile_headers(tool_keeper REUSE_FROM tool_common)
endif()

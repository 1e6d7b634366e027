# SPDX-License-Identifier: GPL-2.0-only
# The code that all commands share.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(NOT TARGET cli11)
  # CLI11 compiled once, where its headers allow it (2.3 and later).
  get_target_property(cli11_folder CLI11::CLI11 INTERFACE_INCLUDE_DIRECTORIES)
  find_path(CLI11_DEFINITIONS CLI/impl/App_inl.hpp HINTS ${cli11_folder})
  if(CLI11_DEFINITIONS)
    add_library(cli11 STATIC ${CMAKE_CURRENT_LIST_DIR}/cli11.cpp)
    target_compile_definitions(cli11 PUBLIC CLI11_COMPILE)
    target_link_libraries(cli11 PUBLIC CLI11::CLI11)
    for_executables(cli11)
  else()
    add_library(cli11 INTERFACE)
    target_link_libraries(cli11 INTERFACE CLI11::CLI11)
  endif()
endif()
if(NOT TARGET tool_common)
  add_library(tool_common STATIC
    ${CMAKE_CURRENT_LIST_DIR}/command.cpp ${CMAKE_CURRENT_LIST_DIR}/hold.cpp ${CMAKE_CURRENT_LIST_DIR}/progress.cpp
    ${CMAKE_CURRENT_LIST_DIR}/report.cpp)
  target_include_directories(tool_common PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  # On the source file rather than the target: the commands reuse the target's precompiled headers, which must have
  # equal flags.
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/command.cpp
    PROPERTIES COMPILE_DEFINITIONS REPRISE_VERSION="${PROJECT_VERSION}")
  target_link_libraries(tool_common PUBLIC cr_core cli11 nlohmann_json::nlohmann_json)
  for_executables(tool_common)
  target_precompile_headers(tool_common PRIVATE
    <CLI/CLI.hpp> <nlohmann/json.hpp> ${PROJECT_SOURCE_DIR}/libcr/image/state.pb.h)
endif()

# reprise_tool(NAME [STATIC] [HEADERS TARGET] SOURCES…). HEADERS: the target whose precompiled headers it uses.
# STATIC: for commands whose start time matters; the dynamic linker takes a good part of a short command's time.
function(reprise_tool name)
  cmake_parse_arguments(PARSE_ARGV 1 tool STATIC HEADERS "")
  if(NOT tool_HEADERS)
    set(tool_HEADERS tool_common)
  endif()
  add_executable(${name} ${tool_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tool_common)
  target_precompile_headers(${name} REUSE_FROM ${tool_HEADERS})
  if(tool_STATIC AND REPRISE_STATIC_TOOLS)
    set_target_properties(${name} PROPERTIES REPRISE_STATIC ON)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc -Wl,--as-needed)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

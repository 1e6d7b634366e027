# SPDX-License-Identifier: GPL-2.0-only
# What all commands share.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(NOT TARGET tool_common)
  add_library(tool_common STATIC
    ${CMAKE_CURRENT_LIST_DIR}/command.cpp ${CMAKE_CURRENT_LIST_DIR}/hold.cpp ${CMAKE_CURRENT_LIST_DIR}/progress.cpp
    ${CMAKE_CURRENT_LIST_DIR}/report.cpp)
  target_include_directories(tool_common PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  target_compile_definitions(tool_common PRIVATE REPRISE_VERSION="${PROJECT_VERSION}")
  target_link_libraries(tool_common PUBLIC cr_core CLI11::CLI11 nlohmann_json::nlohmann_json)
endif()

# reprise_tool(NAME [STATIC] SOURCES…). STATIC: for those whose time counts: of a short
# command the dynamic linker's work is a good part.
function(reprise_tool name)
  cmake_parse_arguments(PARSE_ARGV 1 tool STATIC "" "")
  add_executable(${name} ${tool_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tool_common)
  if(tool_STATIC AND REPRISE_STATIC_TOOLS)
    set_target_properties(${name} PROPERTIES REPRISE_STATIC ON)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc -Wl,--as-needed)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

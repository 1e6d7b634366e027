# SPDX-License-Identifier: GPL-2.0-only
# reprise_tool(NAME SOURCES…): one command, with what all commands share.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(NOT TARGET tool_common)
  add_library(tool_common STATIC
    ${CMAKE_CURRENT_LIST_DIR}/command.cpp ${CMAKE_CURRENT_LIST_DIR}/progress.cpp ${CMAKE_CURRENT_LIST_DIR}/report.cpp)
  target_include_directories(tool_common PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  target_compile_definitions(tool_common PRIVATE REPRISE_VERSION="${PROJECT_VERSION}")
  target_link_libraries(tool_common PUBLIC cr_core CLI11::CLI11 nlohmann_json::nlohmann_json)
endif()

function(reprise_tool name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE tool_common)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

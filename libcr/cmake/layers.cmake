# SPDX-License-Identifier: LGPL-2.1-or-later
# The folders of a library are layers. The include path of a layer contains only the layer itself and the layers that it names,
# transitively: an include of any other layer fails.

# layer_see(NAME RESULT): the include path of one layer alone
function(layer_see name result)
  set(seen ${CMAKE_CURRENT_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${seen})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${seen}/${name} SYMBOLIC)
  set(${result} ${seen} PARENT_SCOPE)
endfunction()

# layer(PROJECT NAME LAYER…): target PROJECT_NAME, of the folder NAME. The property PROJECT_layers lists those that have sources.
function(layer project name)
  layer_see(${name} seen)
  file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cpp)
  if(sources)
    add_library(${project}_${name} OBJECT ${sources})
    set(kind PUBLIC)
    set_property(GLOBAL APPEND PROPERTY ${project}_layers ${project}_${name})
  else()
    add_library(${project}_${name} INTERFACE)
    set(kind INTERFACE)
  endif()
  target_include_directories(${project}_${name} ${kind} ${seen})
  list(TRANSFORM ARGN PREPEND ${project}_ OUTPUT_VARIABLE below)
  target_link_libraries(${project}_${name} ${kind} ${below})
endfunction()

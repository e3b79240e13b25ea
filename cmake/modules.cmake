# SPDX-License-Identifier: Apache-2.0
# Builds the layers. A layer is a folder in src/modules with its sources and a module.toml:
#
#     summary = "one line, as in the module's table"
#     build = "here"              "library": by `netpipe modules add`, with the compiler of each library
#     default = "tcp tcp:wait=poll"   what a run without variants measures of it; without this line it is left out
#
#     [needs]                     of a layer over a library; without it a layer is always built
#     header = "ucp/api/ucp.h"    what must compile
#     folders = "a/b /c/d"        where it may lie besides: folders, and folders of Python packages (those of NVIDIA)
#     libraries = "ucp ucs"       what it is linked with
#     load = "opened"             or not linked: the layer loads it when it is opened, by the name that the macro
#                                 NP_LIBRARY_FILE_LIBRARY says ("libgrpc.so.29")
#     get = "apt install libucx-dev"
#
# A layer whose library is missing is not built. It leaves NAME.absent beside the modules instead, so that `netpipe list`
# can say what it would take. One that is built with a library leaves NAME.needs, which says what to do where the library
# is missing when netpipe runs, and one with `default` leaves NAME.default (src/catalog/absent.h). A build looks again
# when a header or a library has come or gone.
include(CheckIncludeFileCXX)
set(NETPIPE_MODULE_FOLDER "${CMAKE_BINARY_DIR}/lib/netpipe/modules")

# The value of `key = "value"` in this section ("" before the first one), or "".
function(netpipe_module_value file section key result)
  set(${result} "" PARENT_SCOPE)
  set(current "")
  file(STRINGS "${file}" lines ENCODING UTF-8)
  foreach(line IN LISTS lines)
    if(line MATCHES "^\\[([a-z]+)\\]")
      set(current "${CMAKE_MATCH_1}")
    elseif(current STREQUAL section AND line MATCHES "^${key} *= *\"([^\"]*)\"")
      set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Where packages of the Python environment that builds are.
file(GLOB NETPIPE_PYTHON_PACKAGES "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages"
     "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages")

# These folders, each as an absolute path or several, whether they are there or not.
function(netpipe_absolute_folders result)
  set(absolute "")
  foreach(folder IN LISTS ARGN)
    if(IS_ABSOLUTE "${folder}")
      list(APPEND absolute "${folder}")
    else()
      foreach(base IN LISTS NETPIPE_PYTHON_PACKAGES)
        list(APPEND absolute "${base}/${folder}")
      endforeach()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES absolute)
  set(${result} "${absolute}" PARENT_SCOPE)
endfunction()

# Those of these paths that are there. Every build asks again, and configures anew where the answer is another one.
function(netpipe_existing result)
  set(existing "")
  foreach(path IN LISTS ARGN)
    file(GLOB there CONFIGURE_DEPENDS "${path}")
    list(APPEND existing ${there})
  endforeach()
  set(${result} "${existing}" PARENT_SCOPE)
endfunction()

# Sets the cache variable ${have} to whether the header compiles with these folders. That is asked once for what was
# found at the same places before: nine headers take seconds.
function(netpipe_check_header header have)
  set(places ${ARGN} ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
  list(TRANSFORM places APPEND "/${header}")
  netpipe_existing(there ${places})
  netpipe_existing(folders ${ARGN})  # the header may include others from the next one
  set(seen "${there};${folders}")
  if(NOT ${have} OR NOT there OR NOT "${seen}" STREQUAL "${${have}_SEEN}")
    unset(${have} CACHE)
  endif()
  set(CMAKE_REQUIRED_INCLUDES ${folders})
  check_include_file_cxx("${header}" ${have})
  set(${have}_SEEN "${seen}" CACHE INTERNAL "where ${header} was")
endfunction()

# Sets the cache variable ${found} to the path of a library. One that has gone since is looked for again.
function(netpipe_find_library library found)
  if(${found} AND NOT EXISTS "${${found}}")
    unset(${found} CACHE)
  endif()
  find_library(${found} "${library}")
  set(places ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
  list(TRANSFORM places APPEND "/lib${library}.so")
  netpipe_existing(there ${places})
  if(${found})
    netpipe_existing(there "${${found}}")
  endif()
endfunction()

# What modules in C++ include, compiled once for all of them: a third of the time that they take.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/module_headers.cpp" CONTENT "")
add_library(netpipe_module_headers OBJECT "${CMAKE_BINARY_DIR}/generated/module_headers.cpp")
target_precompile_headers(netpipe_module_headers PRIVATE
  <algorithm> <array> <cerrno> <charconv> <cinttypes> <cmath> <cstdio> <cstdlib> <cstring> <functional> <memory> <new>
  <optional> <string> <string_view> <utility> <vector>)

# netpipe_add_module(NAME DIRECTORY SOURCE...): one module, as DIRECTORY/NAME.so.
function(netpipe_add_module name directory)
  add_library(module_${name} MODULE ${ARGN})
  set_target_properties(module_${name} PROPERTIES PREFIX "" OUTPUT_NAME "${name}" LIBRARY_OUTPUT_DIRECTORY "${directory}")
  target_link_options(module_${name} PRIVATE -Wl,--as-needed)  # one that loads its library when it is opened
  target_link_libraries(module_${name} PRIVATE ${CMAKE_DL_LIBS})
  target_include_directories(module_${name} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src/modules")
  if("${ARGN}" MATCHES "\\.cpp")
    set_target_properties(module_${name} PROPERTIES DEFINE_SYMBOL "")  # or each module would be compiled in its own way
    target_precompile_headers(module_${name} REUSE_FROM netpipe_module_headers)
  endif()
endfunction()

# What layers that `netpipe modules add` compiles have in common.
install(DIRECTORY src/modules/kit/ DESTINATION ${CMAKE_INSTALL_DATADIR}/netpipe/modules/kit FILES_MATCHING PATTERN "*.h")

file(GLOB layers CONFIGURE_DEPENDS src/modules/*/module.toml)
foreach(toml IN LISTS layers)
  get_filename_component(folder "${toml}" DIRECTORY)
  get_filename_component(name "${folder}" NAME)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${toml}")
  netpipe_module_value("${toml}" "" build build)
  if(build STREQUAL "library")
    install(DIRECTORY "${folder}/" DESTINATION ${CMAKE_INSTALL_DATADIR}/netpipe/modules/${name})
    continue()
  endif()
  netpipe_module_value("${toml}" "" default default)
  set(default_file "${NETPIPE_MODULE_FOLDER}/${name}.default")
  file(REMOVE "${default_file}")
  if(default)
    file(WRITE "${default_file}" "netpipe-default 1\nvariants ${default}\n")
    install(FILES "${default_file}" DESTINATION lib/netpipe/modules)
  endif()
  netpipe_module_value("${toml}" needs header header)
  netpipe_module_value("${toml}" needs libraries libraries)
  netpipe_module_value("${toml}" needs get get)
  netpipe_module_value("${toml}" needs folders folders)
  separate_arguments(libraries)
  separate_arguments(folders)
  netpipe_absolute_folders(folders ${folders})
  set(missing "")
  if(header)
    string(MAKE_C_IDENTIFIER "NETPIPE_HAVE_${header}" have)
    netpipe_check_header("${header}" ${have} ${folders})
    if(NOT ${have})
      set(missing "its header ${header}")
    endif()
  endif()
  foreach(library IN LISTS libraries)
    string(MAKE_C_IDENTIFIER "NETPIPE_LIBRARY_${library}" found)
    netpipe_find_library("${library}" ${found})
    if(NOT ${found} AND NOT missing)
      set(missing "its library ${library}")
    endif()
  endforeach()
  netpipe_existing(folders ${folders})
  set(absent "${NETPIPE_MODULE_FOLDER}/${name}.absent")
  set(needs "${NETPIPE_MODULE_FOLDER}/${name}.needs")
  if(missing)
    netpipe_module_value("${toml}" "" summary summary)
    file(WRITE "${absent}" "netpipe-absent 1\nname ${name}\nsummary ${summary}\n"
         "reason it was not built: ${missing} was not found; ${get}, then build netpipe again\n")
    install(FILES "${absent}" DESTINATION lib/netpipe/modules)
    # Of an earlier build, when the library was there.
    file(REMOVE "${NETPIPE_MODULE_FOLDER}/${name}.so" "${needs}")
    continue()
  endif()
  file(REMOVE "${absent}")
  if(libraries)
    file(WRITE "${needs}" "netpipe-needs 1\nget ${get}\n")
    install(FILES "${needs}" DESTINATION lib/netpipe/modules)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.c" "${folder}/*.cpp")
  netpipe_add_module(${name} "${NETPIPE_MODULE_FOLDER}" ${sources})
  if(folders)
    # A library that the layer loads when it is opened may lie beside such a header, where no loader looks.
    list(TRANSFORM folders REPLACE "/include$" "/lib" OUTPUT_VARIABLE library_folders)
    list(JOIN library_folders ":" library_folders)
    target_include_directories(module_${name} SYSTEM PRIVATE ${folders})
    target_compile_definitions(module_${name} PRIVATE "NETPIPE_LIBRARY_FOLDERS=\"${library_folders}\"")
  endif()
  foreach(library IN LISTS libraries)
    string(MAKE_C_IDENTIFIER "NETPIPE_LIBRARY_${library}" found)
    netpipe_module_value("${toml}" needs load load)
    if(load STREQUAL "opened")
      get_filename_component(real "${${found}}" REALPATH)
      get_filename_component(real "${real}" NAME)
      string(REGEX MATCH "^.*\\.so\\.[0-9]+" file "${real}")
      target_compile_definitions(module_${name} PRIVATE "NP_LIBRARY_FILE_${library}=\"${file}\"")
    else()
      target_link_libraries(module_${name} PRIVATE "${${found}}")
    endif()
  endforeach()
  install(TARGETS module_${name} LIBRARY DESTINATION lib/netpipe/modules)
endforeach()

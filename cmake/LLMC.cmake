# Building blocks of the build. Two kinds of code: the compiler (sees LLVM and
# MLIR headers) and the ground that compiler and runtime share (sees neither).

add_library(llmc_flags INTERFACE)
target_include_directories(llmc_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(llmc_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-deprecated-declarations -Werror=return-type)

add_library(llmc_mlir_flags INTERFACE)
target_link_libraries(llmc_mlir_flags INTERFACE llmc_flags MLIR LLVM)
target_include_directories(llmc_mlir_flags SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_definitions(llmc_mlir_flags INTERFACE ${LLVM_DEFINITIONS_LIST})
if(NOT LLVM_ENABLE_RTTI)
  target_compile_options(llmc_mlir_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
endif()

# One precompiled header for all compiler code: MLIR's headers cost seconds a file.
function(llmc_use_pch target)
  if(NOT TARGET llmc_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/llmc_pch.cpp "")
    add_library(llmc_pch OBJECT ${CMAKE_BINARY_DIR}/llmc_pch.cpp)
    target_link_libraries(llmc_pch PRIVATE llmc_mlir_flags)
    target_precompile_headers(llmc_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)
  endif()
  target_precompile_headers(${target} REUSE_FROM llmc_pch)
  target_compile_options(${target} PRIVATE -fPIC) # as the header was compiled, not -fPIE
endfunction()

# The named sources that are there; one that appears later is picked up by the
# next build. A library without any still links (from one empty file).
function(llmc_present out)
  set(sources "")
  foreach(source ${ARGN})
    if(IS_ABSOLUTE ${source})
      list(APPEND sources ${source})
    else()
      file(GLOB found CONFIGURE_DEPENDS ${source})
      list(APPEND sources ${found})
    endif()
  endforeach()
  if(NOT sources)
    file(APPEND ${CMAKE_BINARY_DIR}/empty.cpp "")
    set(sources ${CMAKE_BINARY_DIR}/empty.cpp)
  endif()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# llmc_library(NAME sources... LINK libs... DEPENDS targets...): compiler code.
function(llmc_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  llmc_present(sources ${ARG_UNPARSED_ARGUMENTS})
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC llmc_mlir_flags ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  llmc_use_pch(${name})
endfunction()

# llmc_ground_library(NAME sources... LINK libs...): code that knows no MLIR.
function(llmc_ground_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  llmc_present(sources ${ARG_UNPARSED_ARGUMENTS})
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC llmc_flags ${ARG_LINK})
endfunction()

# llmc_dialect(NAME Graph CPPNS ...): TableGen of dialects/<folder>/<Name>Ops.td.
function(llmc_tablegen target)
  # Usage: llmc_tablegen(TARGET td -gen-x out -gen-y out ...)
  list(POP_FRONT ARGN td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  while(ARGN)
    list(POP_FRONT ARGN out)
    list(POP_FRONT ARGN gen)
    set(extra "")
    string(REPLACE "," ";" gen "${gen}")
    mlir_tablegen(${out} ${gen} -I${CMAKE_SOURCE_DIR} EXTRA_INCLUDES ${MLIR_INCLUDE_DIRS})
  endwhile()
  add_public_tablegen_target(${target})
endfunction()

# llmc_phase(FOLDER NAME sources... LINK libs...): a phase's Passes.td with its passes.
function(llmc_phase name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  llmc_tablegen(${name}IncGen Passes.td
    Passes.h.inc "-gen-pass-decls,-name=${name}")
  llmc_library(LLMC${name} ${ARG_UNPARSED_ARGUMENTS}
    LINK ${ARG_LINK} DEPENDS ${name}IncGen ${ARG_DEPENDS})
endfunction()

# Adds the sub-folders that have a CMakeLists.txt.
macro(llmc_rooms)
  foreach(room ${ARGN})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/CMakeLists.txt)
      add_subdirectory(${room})
    endif()
  endforeach()
endmacro()

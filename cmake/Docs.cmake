# llmc-docs: generated pages. Not part of all. The reference of each dialect, from its TableGen
# sources, in build/docs; the passes of each phase with their examples, in docs/passes.
set(docs ${CMAKE_BINARY_DIR}/docs)
set(pages "")
file(GLOB_RECURSE inputs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/dialects/*.td)
function(llmc_doc_page page td)
  add_custom_command(
    OUTPUT ${docs}/${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${docs}
    COMMAND ${MLIR_TABLEGEN_EXE} ${ARGN} -I${CMAKE_SOURCE_DIR} -I${MLIR_INCLUDE_DIRS}
            ${CMAKE_SOURCE_DIR}/${td} -o ${docs}/${page}
    DEPENDS ${inputs} VERBATIM)
  set(pages ${pages} ${docs}/${page} PARENT_SCOPE)
endfunction()

llmc_doc_page(dialect-graph.md dialects/graph/GraphOps.td -gen-dialect-doc -dialect=graph)
llmc_doc_page(dialect-parallel.md dialects/parallel/ParallelOps.td -gen-dialect-doc -dialect=parallel)
llmc_doc_page(dialect-plan.md dialects/plan/PlanOps.td -gen-dialect-doc -dialect=plan)
# The examples are what llmc-opt makes of the passes' tests. Written on each call, as the pages lie
# in the source tree.
add_custom_target(llmc-docs
  COMMAND python3 ${CMAKE_SOURCE_DIR}/scripts/pass-pages.py --build ${CMAKE_BINARY_DIR}
  DEPENDS ${pages} VERBATIM)
add_dependencies(llmc-docs llmc-opt)

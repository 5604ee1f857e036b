# llmc-docs: pages made from the TableGen sources, in build/docs. Not part of all.
# One page a dialect, one a phase, and the pipeline in the order in which it runs
# (mlir-tblgen sorts a phase's passes by name).
set(docs ${CMAKE_BINARY_DIR}/docs)
set(pages "")
function(llmc_doc_page page td)
  add_custom_command(
    OUTPUT ${docs}/${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${docs}
    COMMAND ${MLIR_TABLEGEN_EXE} ${ARGN} -I${CMAKE_SOURCE_DIR} -I${MLIR_INCLUDE_DIRS}
            ${CMAKE_SOURCE_DIR}/${td} -o ${docs}/${page}
    DEPENDS ${inputs} VERBATIM)
  set(pages ${pages} ${docs}/${page} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE inputs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/dialects/*.td ${CMAKE_SOURCE_DIR}/passes/*.td)
llmc_doc_page(dialect-graph.md dialects/graph/GraphOps.td -gen-dialect-doc -dialect=graph)
llmc_doc_page(dialect-parallel.md dialects/parallel/ParallelOps.td -gen-dialect-doc -dialect=parallel)
llmc_doc_page(dialect-plan.md dialects/plan/PlanOps.td -gen-dialect-doc -dialect=plan)
file(GLOB phases RELATIVE ${CMAKE_SOURCE_DIR}/passes ${CMAKE_SOURCE_DIR}/passes/[0-9]*)
foreach(phase ${phases})
  llmc_doc_page(passes-${phase}.md passes/${phase}/Passes.td -gen-pass-doc)
endforeach()
add_custom_command(
  OUTPUT ${docs}/pipeline.md
  COMMAND ${CMAKE_COMMAND} -E make_directory ${docs}
  COMMAND python3 ${CMAKE_SOURCE_DIR}/scripts/pipeline-page.py ${docs}/pipeline.md
  DEPENDS ${inputs} ${CMAKE_SOURCE_DIR}/scripts/pipeline-page.py VERBATIM)
add_custom_target(llmc-docs DEPENDS ${pages} ${docs}/pipeline.md)

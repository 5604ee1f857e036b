# `cmake --install build --prefix P`: the programs, which find llmc-rt beside themselves, and what
# a reader needs. Test: test/install/run.py.
include(GNUInstallDirs)
install(TARGETS llmc llmc-opt llmc-rt llmc-gpu-check RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

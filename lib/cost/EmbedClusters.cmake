# Writes ${OUT}: kClusters, pairs of the name of a file and its text.
set(text "constexpr std::pair<const char *, const char *> kClusters[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} content)
  string(APPEND text "{\"${name}\", R\"json(${content})json\"},\n")
endforeach()
file(WRITE ${OUT} "${text}};\n")

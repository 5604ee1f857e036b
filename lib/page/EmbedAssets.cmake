# Writes ${OUT}: kAssets, pairs of the name of a file and its text.
set(text "constexpr std::pair<std::string_view, std::string_view> kAssets[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "{\"${name}\", R\"asset(${content})asset\"},\n")
endforeach()
file(WRITE ${OUT} "${text}};\n")

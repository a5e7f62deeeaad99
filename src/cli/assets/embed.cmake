# The assets of a page as C: byte arrays, made anew when a file changes.
# Sets HTML_ASSETS, the file that has them.
set(page_texts "")
foreach(asset page.css page.js uPlot.min.css uPlot.iife.min.js LICENSE-uPlot)
  set(asset_file ${CMAKE_CURRENT_LIST_DIR}/${asset})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${asset_file})
  string(MAKE_C_IDENTIFIER ${asset} asset_name)
  string(TOUPPER ${asset_name} asset_name)
  file(READ ${asset_file} asset_bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," asset_bytes "${asset_bytes}")
  string(APPEND page_texts
    "static const uint8_t ${asset_name}[] = {${asset_bytes}};\n"
    "const pl_html_asset_t PL_HTML_${asset_name} = "
    "{${asset_name}, sizeof(${asset_name})};\n")
endforeach()
set(HTML_ASSETS ${CMAKE_CURRENT_BINARY_DIR}/html_assets.c)
configure_file(${CMAKE_CURRENT_LIST_DIR}/html_assets.c.in ${HTML_ASSETS} @ONLY)

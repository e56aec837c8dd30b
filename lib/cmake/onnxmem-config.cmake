# find_package(onnxmem) defines the target onnxmem::onnxmem: the shared library that lies
# beside this folder, and its header.
get_filename_component(_onnxmem_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(WIN32)
  set(_onnxmem_name onnxmem.dll)
elseif(APPLE)
  set(_onnxmem_name libonnxmem.dylib)
else()
  set(_onnxmem_name libonnxmem.so)
endif()
if(NOT EXISTS "${_onnxmem_root}/${_onnxmem_name}")
  set(onnxmem_FOUND FALSE)
  set(onnxmem_NOT_FOUND_MESSAGE "${_onnxmem_root}/${_onnxmem_name} is not there: expected what make lib builds")
  return()
endif()
if(NOT TARGET onnxmem::onnxmem)
  add_library(onnxmem::onnxmem SHARED IMPORTED)
  set_target_properties(onnxmem::onnxmem PROPERTIES
    IMPORTED_LOCATION "${_onnxmem_root}/${_onnxmem_name}"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${_onnxmem_root}")
  if(WIN32)
    set_target_properties(onnxmem::onnxmem PROPERTIES IMPORTED_IMPLIB "${_onnxmem_root}/onnxmem.lib")
  endif()
endif()

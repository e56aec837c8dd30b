# The version of onnxmem.h; a test compares them. As long as it is below 1, the second number
# says what is compatible, then the first.
set(PACKAGE_VERSION "0.1.0")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _onnxmem_series "${PACKAGE_VERSION}")
if("${PACKAGE_FIND_VERSION}" MATCHES "^${_onnxmem_series}" AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()

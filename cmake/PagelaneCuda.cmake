# PAGELANE_CUDA=AUTO|ON|OFF: look for the CUDA toolkit and NCCL.
#
# Sets PAGELANE_HAS_CUDA, and PAGELANE_CUDA_TEXT, what --version and doctor say of
# it.  With ON a missing part is an error, so that a machine meant for GPUs says
# early what it lacks.
set(PAGELANE_CUDA AUTO CACHE STRING "CUDA and NCCL: AUTO, ON or OFF")
set_property(CACHE PAGELANE_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT PAGELANE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "PAGELANE_CUDA is '${PAGELANE_CUDA}'; use AUTO, ON or OFF")
endif()

if(PAGELANE_CUDA STREQUAL "OFF")
  set(PAGELANE_CUDA_TEXT "off: PAGELANE_CUDA=OFF")
else()
  find_package(CUDAToolkit QUIET)
  find_package(NCCL QUIET)
  set(missing "")
  if(NOT CUDAToolkit_FOUND)
    list(APPEND missing "the CUDA toolkit (nvcc)")
  endif()
  if(NOT NCCL_FOUND)
    list(APPEND missing "NCCL (nccl.h, libnccl)")
  endif()
  list(JOIN missing " and " missing)
  if(missing AND PAGELANE_CUDA STREQUAL "ON")
    message(FATAL_ERROR
      "PAGELANE_CUDA=ON, but ${missing} cannot be found; install it, name its "
      "folder in CUDAToolkit_ROOT or NCCL_ROOT, or use PAGELANE_CUDA=AUTO")
  elseif(missing)
    set(PAGELANE_CUDA_TEXT "off: ${missing} not found")
  else()
    enable_language(CUDA)
    set(PAGELANE_HAS_CUDA ON)
    set(PAGELANE_CUDA_TEXT
      "toolkit ${CUDAToolkit_VERSION}, NCCL ${NCCL_VERSION}")
  endif()
endif()
message(STATUS "CUDA: ${PAGELANE_CUDA_TEXT}")

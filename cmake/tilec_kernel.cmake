# tilec_kernel.cmake - kernels as outputs of a build.
#
#   tilec_kernel(OUTPUT SOURCE [ARCH TARGET] [OPTIONS OPTION ..])
#
# OUTPUT, in the current binary folder, is made of SOURCE: x.ptx, x.cubin, or x.h, which is a header with a launcher, for one
# TARGET or several (sm_80,sm_90; OPTIONS --header-ptx puts their code into it).  It is
# made again when SOURCE has changed, or a module that it uses, its tuning database, or tilec.
function(tilec_kernel output source)
  cmake_parse_arguments(PARSE_ARGV 2 kernel "" "ARCH" "OPTIONS")
  if(kernel_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tilec_kernel(${output} ..): '${kernel_UNPARSED_ARGUMENTS}' is behind no ARCH or OPTIONS")
  endif()
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  cmake_path(ABSOLUTE_PATH output BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set(options ${kernel_OPTIONS})
  if(kernel_ARCH)
    list(PREPEND options -arch ${kernel_ARCH})
  endif()
  if(output MATCHES "[.]h$")
    list(APPEND options --emit=header)
  endif()
  set(command ${TILEC_COMMAND})
  if(TARGET tilec)
    set(command tilec) # of add_subdirectory
  endif()
  add_custom_command(OUTPUT ${output}
    COMMAND ${command} ${source} ${options} -MF ${output}.d -o ${output}
    DEPENDS ${source} ${command} DEPFILE ${output}.d VERBATIM)
endfunction()

# install.cmake - what `cmake --install` puts where, and the Debian package that CPack makes of it.
#
#   bin/        tilec, tilerun, simrun, tilec-sim
#   lib/        libtilec.a, libtilec.so, the CMake package `tilec` and tilec.pc; tilec/sim/libcuda.so.1, which tilec-sim loads
#   include/    tilec.h
#   share/      man pages, completion for bash, zsh and fish, the examples, the library in the tile language, what editors need, documents
include(CMakePackageConfigHelpers)

# what a wheel takes (pyproject.toml) is the component `runtime`: these, and what python/CMakeLists.txt adds
install(TARGETS tilec tilerun COMPONENT runtime)
if(SKBUILD)
  set_property(TARGET libtilec_shared PROPERTY VERSION) # wheels have no links
  set_property(TARGET libtilec_shared PROPERTY SOVERSION)
  install(TARGETS libtilec_shared COMPONENT runtime LIBRARY DESTINATION lib)
  return()
endif()
install(TARGETS libtilec libtilec_shared EXPORT tilec)
if(TARGET sim_cuda)
  install(TARGETS simrun)
  install(TARGETS sim_cuda LIBRARY DESTINATION lib/tilec/sim) # where tilec-sim looks, from where it lies itself
  install(PROGRAMS backends/sim/driver/tilec-sim TYPE BIN)
endif()
install(FILES compiler/tilec.h TYPE INCLUDE)
install(FILES LICENSE README.md CHANGELOG.md TYPE DOC)
install(DIRECTORY docs TYPE DOC)
install(DIRECTORY stdlib DESTINATION ${CMAKE_INSTALL_DATADIR}/tilec FILES_MATCHING PATTERN "*.tile")
install(DIRECTORY examples editors DESTINATION ${CMAKE_INSTALL_DATADIR}/tilec
        PATTERN __pycache__ EXCLUDE PATTERN node_modules EXCLUDE PATTERN target EXCLUDE PATTERN Cargo.lock EXCLUDE) # what using them leaves there

# find_package(tilec): tilec::tilec (shared), tilec::tilec_static, tilec_kernel(..)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tilec)
install(EXPORT tilec NAMESPACE tilec:: FILE tilecTargets.cmake DESTINATION ${package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tilecConfig.cmake.in ${PROJECT_BINARY_DIR}/tilecConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_BINDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
install(FILES ${PROJECT_BINARY_DIR}/tilecConfig.cmake cmake/tilec_kernel.cmake DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilecConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilecConfigVersion.cmake DESTINATION ${package})

# pkg-config --cflags --libs tilec; the folders are seen from the file, so that a moved tree works
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR
           BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE pc_includedir)
configure_file(cmake/tilec.pc.in ${PROJECT_BINARY_DIR}/tilec.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tilec.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# the man pages are made from what --help says
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  foreach(program tilec tilerun)
    add_custom_command(
      OUTPUT ${PROJECT_BINARY_DIR}/${program}.1
      COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/man.py $<TARGET_FILE:${program}>
              ${PROJECT_BINARY_DIR}/${program}.1
      DEPENDS ${program} cmake/man.py VERBATIM)
    list(APPEND man_pages ${PROJECT_BINARY_DIR}/${program}.1)
  endforeach()
  add_custom_target(man ALL DEPENDS ${man_pages})
  install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(FILES cmake/tilec.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME tilec)
install(FILES cmake/tilerun.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME tilerun)
install(FILES cmake/_tilec DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES cmake/tilec.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tilec)
set(CPACK_PACKAGE_CONTACT "the tilec developers")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "the tilec developers")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(DPKG_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS nvidia-cuda-toolkit)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
include(CPack)

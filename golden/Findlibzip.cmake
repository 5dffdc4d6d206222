# libzip::zip. Not through libzip's own CMake package: it stops the configuration with an error unless the command-line tools that
# come in other packages (zipcmp, ziptool; so in Debian 12) are installed, and the header and the library are all we need.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_libzip QUIET libzip)
endif()
find_path(libzip_INCLUDE_DIR zip.h HINTS ${PC_libzip_INCLUDE_DIRS})
find_library(libzip_LIBRARY zip HINTS ${PC_libzip_LIBRARY_DIRS})
mark_as_advanced(libzip_INCLUDE_DIR libzip_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(libzip REQUIRED_VARS libzip_LIBRARY libzip_INCLUDE_DIR
                                  REASON_FAILURE_MESSAGE "Debian and Ubuntu: apt-get install libzip-dev")

if(libzip_FOUND AND NOT TARGET libzip::zip)
  add_library(libzip::zip UNKNOWN IMPORTED GLOBAL)
  set_target_properties(libzip::zip PROPERTIES IMPORTED_LOCATION ${libzip_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${libzip_INCLUDE_DIR})
endif()

# cmake -DBUILD=... -DSOURCE=... -DWORK=... -P check.cmake
#
# Installs the build into an empty prefix, builds the consumer project against it with find_package and again with pkg-config, and compares
# what they print with the bits of the worked example.
set(expected "-0x1.57756cp+0 -0x1.c9f1e4p-2 0x1.c9f1e4p-2 0x1.57756cp+0\n")
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${out}${err}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()
function(expect)
  run(${ARGV})
  if(NOT out STREQUAL expected)
    message(FATAL_ERROR "${ARGV} printed ${out}, expected ${expected}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=Debug)
run(${CMAKE_COMMAND} --build ${WORK}/build)
expect(${WORK}/build/consumer)

file(GLOB_RECURSE module ${WORK}/prefix/*/norma-reference.pc)
get_filename_component(modules ${module} DIRECTORY)
# The prefix of a .pc file is where it was configured to go; --define-variable says where it went.
set(pkg_config ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${modules} pkg-config --define-variable=prefix=${WORK}/prefix)
run(${pkg_config} --modversion norma-reference)
string(STRIP "${out}" version)
if(NOT version STREQUAL VERSION)
  message(FATAL_ERROR "norma-reference.pc says version ${version}, expected ${VERSION}")
endif()
run(${pkg_config} --cflags --libs norma-reference)
separate_arguments(flags UNIX_COMMAND "${out}")
run(${CXX} -std=c++20 ${SOURCE}/main.cc -o ${WORK}/with_pkg_config ${flags})
expect(${WORK}/with_pkg_config)

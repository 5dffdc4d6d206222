# cmake -DSOURCE=... -DWORK=... -DNINJA=... -DCOMPILERS=... -DINCLUDES=... -DOPTIONS=... -DRAPIDCHECK=... -P check.cmake
#
# The golden files are the same bytes whoever compiles what makes them: every compiler, at -O0 and at -O3. Of RapidCheck, which draws random
# numbers, the library is used as it is.
cmake_minimum_required(VERSION 3.25)
set(folder ${SOURCE}/properties/src)
set(here ${SOURCE}/properties/tests/same_bytes)

# To read a header costs more than to compile what it is for: a few units of many files each. Names that are a file's own are there twice in
# some, which are kept apart.
file(GLOB exact ${SOURCE}/reference/src/*.cc ${SOURCE}/golden/src/text.cc)
set(apart ${folder}/vectors/paper.cc ${folder}/vectors/ties.cc)
file(GLOB written ${folder}/vectors/*.cc)
list(REMOVE_ITEM written ${apart})
list(APPEND written ${folder}/case.cc ${folder}/truth.cc ${folder}/laws/common.cc)
set(drawn ${folder}/vectors/paper.cc ${folder}/arithmetic.cc ${folder}/generate.cc ${folder}/shrink.cc ${folder}/wish.cc)
set(others ${folder}/vectors/ties.cc ${folder}/families.cc ${here}/main.cc)

# A file is left as it is where it is the same, so that what was built stays.
foreach(unit IN ITEMS exact written drawn others)
  list(TRANSFORM ${unit} REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE lines)
  list(JOIN lines "" text)
  file(CONFIGURE OUTPUT ${WORK}/${unit}.cc CONTENT "${text}" @ONLY)
endforeach()

list(FILTER INCLUDES EXCLUDE REGEX "^(/usr/include)?$")
list(REMOVE_DUPLICATES INCLUDES)
list(TRANSFORM INCLUDES PREPEND "-I")
list(JOIN INCLUDES " " includes)
list(FILTER OPTIONS EXCLUDE REGEX "^(-W.*)?$")  # warnings are the build's affair
list(JOIN OPTIONS " " options)
set(ninja "rule compile
  command = $compiler $level -std=gnu++20 ${options} ${includes} -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule link
  command = $compiler $in ${RAPIDCHECK} -o $out
rule compare
  command = $in ${SOURCE}/golden/vectors_v1
")
foreach(compiler IN LISTS COMPILERS)
  get_filename_component(name ${compiler} NAME)
  foreach(level IN ITEMS -O0 -O3)
    set(objects "")
    foreach(unit IN ITEMS exact written drawn others)
      set(object ${name}${level}/${unit}.o)
      string(APPEND ninja "build ${object}: compile ${unit}.cc\n  compiler = ${compiler}\n  level = ${level}\n")
      string(APPEND objects " ${object}")
    endforeach()
    # Nothing is ever made by the last one, so that it is run every time.
    string(APPEND ninja "build ${name}${level}/same_bytes: link${objects}\n  compiler = ${compiler}\n"
                        "build ${name}${level}/compared: compare ${name}${level}/same_bytes\n")
  endforeach()
endforeach()
file(CONFIGURE OUTPUT ${WORK}/build.ninja CONTENT "${ninja}" @ONLY)
execute_process(COMMAND ${NINJA} -C ${WORK} -k 0 COMMAND_ERROR_IS_FATAL ANY)

# What Norma's libraries are built on: the one list. Whoever links them, static, needs the same, so the installed package reads this
# file too. (nlohmann_json, header only and out of every public header, is needed to build and not to link: golden/CMakeLists.txt.)
list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
find_package(Boost 1.74 REQUIRED GLOBAL)
find_package(ZLIB REQUIRED GLOBAL)
find_package(libzip REQUIRED)
list(POP_FRONT CMAKE_MODULE_PATH)

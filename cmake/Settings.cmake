# Language level, warnings, sanitizers and visibility, the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_package(Threads REQUIRED)
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

find_program(SABOT_CCACHE ccache)
if(SABOT_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${SABOT_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SABOT_CCACHE})
endif()

add_library(sabot_settings INTERFACE)
target_compile_definitions(sabot_settings INTERFACE SABOT_VERSION="${PROJECT_VERSION}")
target_compile_options(sabot_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow>
  # g++ 12 reports overlapping copies in std::string operator+ that do not exist (GCC PR 105651).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
  -fno-omit-frame-pointer)
if(SABOT_WERROR)
  target_compile_options(sabot_settings INTERFACE -Werror)
endif()
if(SABOT_SANITIZER)
  string(REPLACE ";" "," sanitizers "${SABOT_SANITIZER}")
  target_compile_options(sabot_settings INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all)
  target_link_options(sabot_settings INTERFACE -fsanitize=${sanitizers})
endif()
target_link_libraries(sabot_settings INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

# sabot_stub_nccl(TARGET VERSION 2.28.9 NAME text [FOLDER below the build folder] [FUTURE]
# [SONAME name]) builds a libnccl.so.2 (or SONAME) of that release without a GPU (stub.h); with
# OBJECTS it builds an object library of the same, to be linked in statically.
set(SABOT_STUB_FOLDER ${CMAKE_CURRENT_LIST_DIR})

function(sabot_stub_nccl target)
  cmake_parse_arguments(stub "OBJECTS;FUTURE" "VERSION;NAME;FOLDER;SONAME" "" ${ARGN})
  set(exports ${CMAKE_CURRENT_BINARY_DIR}/${target}_exports.c)
  add_custom_command(OUTPUT ${exports}
    COMMAND ${Python3_EXECUTABLE} -B ${SABOT_STUB_FOLDER}/generate_stub.py
            --api ${CMAKE_SOURCE_DIR}/api --behaviour ${SABOT_STUB_FOLDER}/stub.c
            --nccl-version ${stub_VERSION} --out ${exports}
    DEPENDS ${SABOT_STUB_FOLDER}/generate_stub.py ${SABOT_STUB_FOLDER}/stub.c
            ${CMAKE_SOURCE_DIR}/api/nccl_api.toml ${CMAKE_SOURCE_DIR}/api/spec.py)
  if(stub_OBJECTS)
    add_library(${target} OBJECT ${SABOT_STUB_FOLDER}/stub.c ${exports})
  else()
    add_library(${target} SHARED ${SABOT_STUB_FOLDER}/stub.c ${exports})
    if(NOT stub_SONAME)
      set(stub_SONAME libnccl.so.2)
    endif()
    set_target_properties(${target} PROPERTIES
      PREFIX "" OUTPUT_NAME ${stub_SONAME} SUFFIX "" NO_SONAME ON
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${stub_FOLDER}
      LINK_OPTIONS "-Wl,-soname,${stub_SONAME};-Wl,--build-id=sha1")
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  endif()
  target_include_directories(${target} PRIVATE ${SABOT_STUB_FOLDER} ${SABOT_GENERATED}/include)
  target_compile_definitions(${target} PRIVATE
    _GNU_SOURCE SABOT_NCCL_WITHOUT_CUDA STUB_NAME="${stub_NAME}"
    $<$<BOOL:${stub_FUTURE}>:STUB_FUTURE>)
  # Not the product's settings: a sanitizer in the vendor's library would not be there either.
  target_compile_options(${target} PRIVATE -Wall -Wextra -O2)
endfunction()

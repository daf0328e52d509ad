# Builds src/pytorch as the extension module of the torch that SABOT_TORCH_PYTHON imports, with the
# warnings of the project for our files and none for torch's headers. The package itself says what a
# build has to fit (sabot/_target.py), so that both ways of building agree.
execute_process(
  COMMAND ${SABOT_TORCH_PYTHON} -B -m sabot._build --describe
  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
  OUTPUT_VARIABLE described RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "SABOT_TORCH_PYTHON=${SABOT_TORCH_PYTHON} has no torch to build for; the "
    "line above says why")
endif()

function(described_list out key)
  set(values)
  string(JSON count LENGTH "${described}" ${key})
  foreach(index RANGE ${count})
    if(index LESS count)
      string(JSON value GET "${described}" ${key} ${index})
      list(APPEND values "${value}")
    endif()
  endforeach()
  set(${out} "${values}" PARENT_SCOPE)
endfunction()
described_list(torch_include include_folders)
described_list(torch_folders library_folders)
described_list(torch_libraries libraries)
described_list(torch_definitions definitions)
string(JSON torch_target GET "${described}" name)
string(JSON torch_version GET "${described}" torch_version)

file(GLOB_RECURSE torch_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/pytorch/*.cpp)
list(FILTER torch_sources EXCLUDE REGEX "_test\\.cpp$")
add_library(sabot_torch MODULE ${torch_sources})
target_include_directories(sabot_torch PRIVATE
  ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include ${SABOT_GENERATED}/include)
target_include_directories(sabot_torch SYSTEM PRIVATE ${torch_include})
target_compile_definitions(sabot_torch PRIVATE ${torch_definitions})
target_link_directories(sabot_torch PRIVATE ${torch_folders})
target_link_libraries(sabot_torch PRIVATE sabot_settings ${torch_libraries})
set_target_properties(sabot_torch PROPERTIES
  PREFIX "" OUTPUT_NAME _native
  # torch has loaded its libraries before; a path to them would only age.
  SKIP_BUILD_RPATH ON INSTALL_RPATH ""
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/prebuilt/${torch_target})
message(STATUS "Extension for torch ${torch_version} of ${SABOT_TORCH_PYTHON}")

# A component of its own: a wheel leaves it out, since it serves this one torch only.
install(TARGETS sabot_torch LIBRARY DESTINATION python/sabot/prebuilt/${torch_target}
  COMPONENT torch)

# Runs api/generate.py at configure time; its outputs are ordinary sources and headers under build/.
set(SABOT_GENERATED ${CMAKE_BINARY_DIR}/generated)
set(SABOT_GENERATOR ${CMAKE_SOURCE_DIR}/api/generate.py)
set(SABOT_API_SPEC ${CMAKE_SOURCE_DIR}/api/nccl_api.toml)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${SABOT_API_SPEC} ${SABOT_GENERATOR}
  ${CMAKE_SOURCE_DIR}/api/spec.py ${CMAKE_SOURCE_DIR}/api/header.py)
execute_process(
  COMMAND ${Python3_EXECUTABLE} -B ${SABOT_GENERATOR} --spec ${SABOT_API_SPEC}
          --nccl-version ${SABOT_NCCL_VERSION} --out ${SABOT_GENERATED}
  RESULT_VARIABLE generated)
if(NOT generated EQUAL 0)
  message(FATAL_ERROR "api/generate.py failed; the lines above name the place in the spec")
endif()

# Runs api/generate.py at configure time; its outputs are ordinary sources and headers under build/.
set(SABOT_GENERATED ${CMAKE_BINARY_DIR}/generated)
set(SABOT_API_SPEC ${CMAKE_SOURCE_DIR}/api/nccl_api.toml)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${SABOT_API_SPEC} ${CMAKE_SOURCE_DIR}/api/generate.py)

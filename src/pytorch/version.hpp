// Which torch this is compiled against, for what its headers cannot be asked otherwise.
#pragma once

#include <torch/version.h>

#define SABOT_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||        \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

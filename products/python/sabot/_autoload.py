"""The entry point that torch calls at the end of `import torch`, from version 2.5 on.

Whatever goes wrong here would make `import torch` fail for people who may not even use Sabot, so
nothing does: what a torch cannot have is left out, and what was not foreseen becomes a warning.
`import sabot.torch` tells the reason to those who ask for the backend.
"""

from __future__ import annotations

import warnings


def register() -> None:
    """Registers the backends, if this torch can have them."""
    try:
        import sabot.torch  # noqa: F401
    except Exception as error:
        if type(error).__name__ != "SabotError":
            warnings.warn(f"Sabot could not register its backends with this torch: {error!r};"
                          " TORCH_DEVICE_BACKEND_AUTOLOAD=0 stops it from trying", stacklevel=1)

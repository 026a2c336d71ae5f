from __future__ import annotations

from hypothesis import settings

# The first call of a kernel compiles it: no time limit on an example says anything of the rules.
settings.register_profile("no_deadline", print_blob=True)
settings.load_profile("no_deadline")

import os
import sys

# numba stamps compiled code with the text of the function's own file, and not of those it
# inlines; in a zip, as Spark sends it, it would keep the code under the application's name.
# Ours stand first, before any module of this package imports numba.
_OURS = ",".join(
    f"spark_jobs.spark.kernel_cache.{name}Kernels"
    for name in ("NamedFolder", "InTree", "UserWide", "Zipped")
)
_NUMBAS = ",".join(
    f"{name}CacheLocator" for name in ("UserProvided", "InTree", "UserWide", "IPython", "Zip")
)
os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", f"{_OURS},{_NUMBAS}")
if "numba" in sys.modules:
    sys.modules["numba"].core.config.reload_config()

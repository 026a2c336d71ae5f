import os

# In a zip, as Spark sends it, numba would keep compiled code under the application's name: each
# would compile anew. Numba is told before any module of this package imports it.
if not os.path.exists(__file__):
    os.environ.setdefault(
        "NUMBA_CACHE_LOCATOR_CLASSES",
        "spark_jobs.spark.kernel_cache.ZippedKernels,UserProvidedCacheLocator,InTreeCacheLocator,"
        "UserWideCacheLocator,IPythonCacheLocator",
    )

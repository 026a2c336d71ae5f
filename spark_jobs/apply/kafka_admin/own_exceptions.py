"""A client of py4j whose Java exceptions are raised before PySpark can take them for its own."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import GatewayClient
from py4j.protocol import REFERENCE_TYPE, get_return_value, is_error


class OwnExceptionsClient(GatewayClient):  # type: ignore[misc]  # py4j has no types
    """Raises each exception of its JVM as ``Py4JJavaError``, also beside a Spark session.

    A session replaces, for its whole process, what py4j makes of an answer
    (``pyspark.errors.exceptions.captured.install_exception_handler``): every exception is shown to
    Spark's JVM, which knows nothing of another JVM's objects.
    """

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """Return the answer to ``command``; raises Py4JJavaError where it is an exception."""
        answer = super().send_command(command, retry, binary)
        if not binary and is_error(answer)[0] and answer[1:2] == REFERENCE_TYPE:
            get_return_value(answer, self)
        return answer

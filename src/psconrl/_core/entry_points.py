"""What installed packages offer by entry points."""

import logging
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

log = logging.getLogger(__name__)


def load_entry_points(group: str, register: Callable[[str, Any], object]) -> None:
    """Register what installed packages offer; one that cannot be used is named in a warning and left out.

    Args:
        group: "psconrl.agents" or "psconrl.environments".
        register: called with the name of each entry point, and what it refers to.
    """
    for point in entry_points(group=group):
        try:
            register(point.name, point.load())
        except Exception as error:  # what a package of somebody else does is not known
            log.warning("the entry point %s = %s of %s cannot be used: %s", point.name, point.value, group, error)

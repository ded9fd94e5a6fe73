"""Settings for all tests."""

from hypothesis import settings

settings.register_profile("psconrl", deadline=None, derandomize=True)
settings.load_profile("psconrl")

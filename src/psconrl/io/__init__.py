"""Models on disk and in other shapes, and the one way in which files of any kind are read and written."""

"""The HTTP service: one learner behind JSON, with a page to watch it (extra `service`)."""

from . import render as render
from .catalogue import Environment as Environment
from .catalogue import find as find
from .catalogue import find_model as find_model
from .catalogue import make as make
from .catalogue import register as register
from .catalogue import registry as registry
from .grid import gridworld as gridworld
from .text_map import named_map as named_map
from .text_map import random_map as random_map
from .text_map import read_map as read_map

__all__: list[str]

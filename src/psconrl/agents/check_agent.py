"""Names that authors of agents look for here and that live above this package; nothing in it imports them."""

from psconrl.experiments.paper_settings import preset as preset
from psconrl.learning.check_agent import check_agent as check_agent

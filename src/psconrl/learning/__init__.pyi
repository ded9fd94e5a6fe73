from .estimate import Estimate as Estimate
from .fitting import fit as fit
from .gymnasium_loop import learn as learn
from .learner import Learner as Learner
from .metrics import METRICS as METRICS
from .metrics import Metric as Metric
from .run import Run as Run
from .run import RunData as RunData
from .run import Snapshot as Snapshot
from .simulation import simulate as simulate
from .steering import Steering as Steering

__all__: list[str]

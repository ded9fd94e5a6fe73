"""A name that is looked for here and that lives above this package; nothing in it imports this file."""

from psconrl.learning.check_agent import check_agent as check_agent

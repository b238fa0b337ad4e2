"""The title's question for a user's own model: is this trained network linear?"""

from biasfree.inspection._inspection import Inspection, inspect

__all__ = ["Inspection", "inspect"]

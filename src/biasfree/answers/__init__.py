"""The title's question for the user's own case: data to be learned, or a model that was trained."""

from biasfree.answers._diagnose import diagnose
from biasfree.answers._diagnosis import Diagnosis
from biasfree.answers._inspection import Inspection, inspect

__all__ = ["Diagnosis", "Inspection", "diagnose", "inspect"]

"""The title's question for a user's own data: will a bias-free network be effectively linear on it?"""

from biasfree.diagnosis._diagnose import diagnose
from biasfree.diagnosis._diagnosis import Diagnosis

__all__ = ["Diagnosis", "diagnose"]

"""What the papers predict, as functions; none of them simulates a network.

Equation, theorem and lemma numbers are those of Zhang, Saxe & Latham's workshop paper.
"""

from biasfree.theory._best_loss import BestLoss, best_possible_loss
from biasfree.theory._early import (
    AlignedStart,
    GrowthBound,
    aligned_start,
    early_solution,
    escape_time,
    lemma_12,
    theorem_13,
)
from biasfree.theory._early_flow import EarlyFlow, early_flow
from biasfree.theory._equivalence import (
    descent_lag,
    finite_width_error,
    finite_width_error_distribution,
    linear_learning_rate,
    linear_time,
    linear_twin,
    linear_weight_decay,
    relu_twin,
    weight_factor,
)
from biasfree.theory._expressivity import (
    ParityForm,
    depth_separation_network,
    homogeneity_error,
    parity_form,
    same_function,
)
from biasfree.theory._gathering import Gathering, gather, gathering_directions
from biasfree.theory._limits import least_squares, linear_loss, regularised_limit
from biasfree.theory._margin import MaxMargin, Separability, max_margin, max_margin_with_bias, separability
from biasfree.theory._staircase import Staircase, several_linear_networks
from biasfree.theory._switching import Switches
from biasfree.theory._time_course import closed_form, reduced_flow, reduced_flow_logistic

__all__ = [
    "AlignedStart",
    "BestLoss",
    "EarlyFlow",
    "Gathering",
    "GrowthBound",
    "MaxMargin",
    "ParityForm",
    "Separability",
    "Staircase",
    "Switches",
    "aligned_start",
    "best_possible_loss",
    "closed_form",
    "depth_separation_network",
    "descent_lag",
    "early_flow",
    "early_solution",
    "escape_time",
    "finite_width_error",
    "finite_width_error_distribution",
    "gather",
    "gathering_directions",
    "homogeneity_error",
    "least_squares",
    "lemma_12",
    "linear_learning_rate",
    "linear_loss",
    "linear_time",
    "linear_twin",
    "linear_weight_decay",
    "max_margin",
    "max_margin_with_bias",
    "parity_form",
    "reduced_flow",
    "reduced_flow_logistic",
    "regularised_limit",
    "relu_twin",
    "same_function",
    "separability",
    "several_linear_networks",
    "theorem_13",
    "weight_factor",
]

"""What the papers predict, as functions; none of them simulates a network.

Equation, theorem and lemma numbers are those of Zhang, Saxe & Latham's workshop paper.
"""

from biasfree.switching import Switches
from biasfree.theory._asymmetry import Asymmetry, Bound, asymmetry
from biasfree.theory._best_loss import BestLoss, best_possible_loss
from biasfree.theory._class_margin import ClassMargin, max_margin_classes
from biasfree.theory._deep import EffectiveMap, effective_map, eq_12_velocity, eq_42_velocity
from biasfree.theory._deep_closed import aligned_norm, aligned_time, drop_time
from biasfree.theory._deep_flow import DeepFlow, deep_reduced_flow, deep_weights
from biasfree.theory._deep_paths import DeepStaircase, TwoPathFlow, deep_staircase, two_path_flow, two_path_weights
from biasfree.theory._departure import Departure, Leaver, departure, departure_threshold
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
    mirrored,
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
from biasfree.theory._finite_width import FiniteWidthResponse, finite_width_response
from biasfree.theory._gathering import Gathering, gather, gathering_directions
from biasfree.theory._lemmas import (
    FirstTerms,
    HalfSpaceAverages,
    Identity,
    Inequality,
    equation_24a,
    lemma_8,
    lemma_9,
    lemma_10,
    lemma_11,
)
from biasfree.theory._limits import least_squares, linear_loss, regularised_limit
from biasfree.theory._margin import MaxMargin, Separability, max_margin, max_margin_with_bias, separability
from biasfree.theory._modes import Modes, ModeStaircase, growing_modes, mode_staircase
from biasfree.theory._rank_bound import LayerBound, RankBound, rank_bound
from biasfree.theory._sign_paths import SignPaths, sign_paths, wide_paths
from biasfree.theory._staircase import Staircase, several_linear_networks
from biasfree.theory._symmetry import Symmetry, symmetry
from biasfree.theory._time_course import closed_form, reduced_flow, reduced_flow_logistic

__all__ = [
    "AlignedStart",
    "Asymmetry",
    "BestLoss",
    "Bound",
    "ClassMargin",
    "DeepFlow",
    "DeepStaircase",
    "Departure",
    "EarlyFlow",
    "EffectiveMap",
    "FiniteWidthResponse",
    "FirstTerms",
    "Gathering",
    "GrowthBound",
    "HalfSpaceAverages",
    "Identity",
    "Inequality",
    "LayerBound",
    "Leaver",
    "MaxMargin",
    "ModeStaircase",
    "Modes",
    "ParityForm",
    "RankBound",
    "Separability",
    "SignPaths",
    "Staircase",
    "Switches",
    "Symmetry",
    "TwoPathFlow",
    "aligned_norm",
    "aligned_start",
    "aligned_time",
    "asymmetry",
    "best_possible_loss",
    "closed_form",
    "deep_reduced_flow",
    "deep_staircase",
    "deep_weights",
    "departure",
    "departure_threshold",
    "depth_separation_network",
    "descent_lag",
    "drop_time",
    "early_flow",
    "early_solution",
    "effective_map",
    "eq_12_velocity",
    "eq_42_velocity",
    "equation_24a",
    "escape_time",
    "finite_width_error",
    "finite_width_error_distribution",
    "finite_width_response",
    "gather",
    "gathering_directions",
    "growing_modes",
    "homogeneity_error",
    "least_squares",
    "lemma_8",
    "lemma_9",
    "lemma_10",
    "lemma_11",
    "lemma_12",
    "linear_learning_rate",
    "linear_loss",
    "linear_time",
    "linear_twin",
    "linear_weight_decay",
    "max_margin",
    "max_margin_classes",
    "max_margin_with_bias",
    "mirrored",
    "mode_staircase",
    "parity_form",
    "rank_bound",
    "reduced_flow",
    "reduced_flow_logistic",
    "regularised_limit",
    "relu_twin",
    "same_function",
    "separability",
    "several_linear_networks",
    "sign_paths",
    "symmetry",
    "theorem_13",
    "two_path_flow",
    "two_path_weights",
    "weight_factor",
    "wide_paths",
]

"""What is observed on weights and trajectories: linearity, rank, alignment, balance, neurons, plateaus."""

from biasfree.measure._approach import Approach
from biasfree.measure._awake import ActiveDirection
from biasfree.measure._early import EarlyPhase, early_phase
from biasfree.measure._equivalence import Assumption4, EquivalenceErrors, assumption_4, equivalence_errors
from biasfree.measure._invariants import (
    Invariant,
    active_block_balance,
    branch_balance,
    matrix_balance,
    neuron_balance,
    same_pattern_balance,
    stream_balance,
)
from biasfree.measure._late_phase import ActiveBlock, LatePhase, late_phase
from biasfree.measure._linearity import Linearity, linearity
from biasfree.measure._low_rank_fit import LowRankFit, fit_eq_39, fit_eq_40
from biasfree.measure._neurons import LayerNeurons, Neurons, neurons
from biasfree.measure._plateaus import Plateau, Plateaus, plateaus
from biasfree.measure._rank_excess import RankExcess, rank_excess
from biasfree.measure._skeleton import Drop, Skeleton, skeleton
from biasfree.measure._structure import Spectrum, Structure, spectrum, structure

__all__ = [
    "ActiveBlock",
    "ActiveDirection",
    "Approach",
    "Assumption4",
    "Drop",
    "EarlyPhase",
    "EquivalenceErrors",
    "Invariant",
    "LatePhase",
    "LayerNeurons",
    "Linearity",
    "LowRankFit",
    "Neurons",
    "Plateau",
    "Plateaus",
    "RankExcess",
    "Skeleton",
    "Spectrum",
    "Structure",
    "active_block_balance",
    "assumption_4",
    "branch_balance",
    "early_phase",
    "equivalence_errors",
    "fit_eq_39",
    "fit_eq_40",
    "late_phase",
    "linearity",
    "matrix_balance",
    "neuron_balance",
    "neurons",
    "plateaus",
    "rank_excess",
    "same_pattern_balance",
    "skeleton",
    "spectrum",
    "stream_balance",
    "structure",
]

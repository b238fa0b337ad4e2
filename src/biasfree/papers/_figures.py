"""Figures of both versions, the journal's further appendices, Le & Jegelka's results, and what goes beyond."""

from biasfree.papers._entry import entry

_SIX = "studies/test_two_layer_studies.py::test_the_share_that_stays_is_told_and_its_seeds_are_stated"
_HOLD = "studies/test_two_layer_studies.py::test_holds"
_LATE = "measure/test_late_phase.py::"
_KEPT = "measure/test_invariants.py::"
_NOT_HELD = (
    "The text of the journal version is not at hand, only its reproducibility sheet, which does not mention this one."
)

FIGURES = (
    entry(
        "Workshop Figure 1", "Section 4.1", "Loss curves of several slopes, their collapse, and the weight error.",
        "theory.closed_form theory.reduced_flow measure.equivalence_errors theory.finite_width_error", "tmlr-figure-3",
        "test_figure3.py::test_ends_at_least_squares_with_the_predicted_weight_error",
        journal="Figure 3",
        note="An error below 1 % (0.3 % in the journal) is a matter of the draw: one in five (twenty) at width 500.",
    ),
    entry(
        "Workshop Figure 2", "Appendix B", "Six almost symmetric points: a long plateau, then a nonlinear solution.",
        "datasets.six_points theory.departure plateaus", "tmlr-figure-6 perturbed-symmetry departure-law", _SIX,
        journal="Figure 6",
    ),
    entry(
        "Workshop Figure 3", "Appendix F.1", "Weights of a deep linear and a deep ReLU network.",
        "measure.fit_eq_39 measure.fit_eq_40 theory.deep_staircase", "tmlr-figure-5",
        "test_figure5.py::test_flow_finds_the_structure_with_a_fifth_of_the_gradients",
        journal="Figure 5", note="The ReLU loss falls in two steps; the text mentions one.",
    ),
    entry(
        "Journal Figure 1", "reproducibility sheet", "Two and three layers trained on Eq. 3's function.",
        "theory.depth_separation_network datasets.depth_separation", "tmlr-figure-1",
        "test_depth_separation.py::test_two_layers_stop_at_the_linear_solution", id="tmlr-figure-1",
    ),
    entry(
        "Journal Figure 2", "not at hand", "Unknown here.", "", "", "", id="tmlr-figure-2", note=_NOT_HELD,
    ),
    entry(
        "Journal Figure 4", "reproducibility sheet", "Orthogonal inputs and XOR, square loss: staircases.",
        "theory.several_linear_networks datasets.orthogonal_pair datasets.xor",
        "tmlr-figure-4 orthogonal-inputs xor-inputs",
        "theory/test_staircase.py::test_xor theory/test_staircase.py::test_orthogonal_inputs", id="tmlr-figure-4",
    ),
    entry(
        "Journal Figure 7", "not at hand", "Unknown here.", "", "", "", id="tmlr-figure-7", note=_NOT_HELD,
    ),
    entry(
        "Journal Figure 8", "reproducibility sheet", "Orthogonal inputs and XOR, logistic loss.",
        "theory.several_linear_networks", "tmlr-figure-8 orthogonal-inputs xor-inputs",
        "theory/test_staircase.py::test_xor theory/test_staircase.py::test_orthogonal_inputs", id="tmlr-figure-8",
    ),
)  # fmt: skip

APPENDICES = (
    entry(
        "Appendix B", "workshop", "Stacking a one to the inputs is not a bias.",
        "Dataset.with_ones theory.max_margin_with_bias", "stacked-ones", _HOLD,
    ),
    entry(
        "Appendix E.4", "workshop", "On symmetric data the global minimum is linear.",
        "theory.best_possible_loss", "global-minimum best-possible-loss",
        "theory/test_best_loss.py::test_condition_3_makes_the_minimum_linear", id="appendix-e4",
    ),
    entry(
        "Appendix G", "workshop", "How weights are drawn: N(0, γ²/N_l).", "Network.init", "tmlr-figure-3",
        "test_networks.py::TestStarts::test_init_is_appendix_g",
    ),
    entry(
        "Journal Appendix C.4", "reproducibility sheet", "Theorem 5 with weight decay.",
        "theory.linear_weight_decay", "weight-decay", "theory/test_equivalence.py::test_exact_starts_are_equivalent",
        id="tmlr-appendix-c4",
    ),
    entry(
        "Journal Appendix C.5", "reproducibility sheet", "What survives from large initial weights.",
        "measure.equivalence_errors", "large-initialisation",
        "theory/test_equivalence.py::test_large_random_starts_end_linear_all_the_same", id="tmlr-appendix-c5",
    ),
    entry(
        "Journal Appendix C.6", "reproducibility sheet", "What survives at large learning rates.",
        "theory.linear_learning_rate theory.descent_lag", "large-learning-rate",
        "theory/test_equivalence.py::test_descent_at_matched_rates_agrees_step_by_step", id="tmlr-appendix-c6",
    ),
)  # fmt: skip

LE_JEGELKA = (
    entry(
        "Le & Jegelka: neurons", "ICLR 2022", "Every neuron conserves ‖incoming‖² − ‖outgoing‖².",
        "measure.neuron_balance", "neuron-invariance",
        _KEPT + "test_what_is_called_conserved_has_no_derivative_and_the_rest_has_one", id="le-jegelka-neurons",
    ),
    entry(
        "Le & Jegelka: matrices", "ICLR 2022", "Linear layers conserve a whole matrix, ReLU layers do not.",
        "measure.matrix_balance measure.same_pattern_balance", "matrix-invariance",
        f"{_KEPT}test_linear_layers_conserve_the_matrix {_KEPT}test_the_full_relu_matrix_drifts_where_neurons_switch",
        id="le-jegelka-matrices",
    ),
    entry(
        "Le & Jegelka: stable neurons", "ICLR 2022", "ReLU layers conserve the block of always active neurons.",
        "measure.active_block_balance", "stable-neurons",
        _KEPT + "test_relu_layers_conserve_neurons_and_active_blocks_but_not_the_matrix",
        id="le-jegelka-stable-neurons",
    ),
    entry(
        "Le & Jegelka: skips", "ICLR 2022", "With identity skips I + W takes the place of W.",
        "measure.branch_balance measure.stream_balance", "residual-invariance",
        _KEPT + "test_identity_skips_and_branches", id="le-jegelka-skips",
    ),
    entry(
        "Le & Jegelka: low rank", "ICLR 2022", "On separable data the last linear layers tend to rank one.",
        "measure.late_phase theory.rank_bound measure.rank_excess", "rank-one-limit",
        f"{_LATE}test_relu_then_linear_layers {_LATE}test_the_bound_holds_at_every_time_and_knows_its_start",
        id="le-jegelka-low-rank",
    ),
    entry(
        "Le & Jegelka: alignment", "ICLR 2022", "In the same limit neighbouring layers align.",
        "measure.late_phase", "alignment-limit",
        _LATE + "test_linear_networks_become_rank_one_and_aligned_at_the_predicted_rate", id="le-jegelka-alignment",
    ),
)  # fmt: skip

BEYOND = (
    entry(
        "What no width can fit", "this project", "The least loss of any two-layer or deep bias-free network.",
        "theory.best_possible_loss", "best-possible-loss",
        "theory/test_best_loss.py::test_no_trained_network_goes_below_it_and_many_come_close "
        "theory/test_best_loss.py::test_attaining_networks_attain_it", id="least-loss",
    ),
    entry(
        "The law of departure", "this project", "How long almost symmetric data look linear.",
        "theory.departure theory.departure_threshold", "departure-law departure-decay",
        "theory/test_departure.py::TestTheLaw::test_the_time_agrees_with_runs_on_the_six_points", id="departure",
    ),
    entry(
        "Plateaus", "this project", "Every plateau is an early phase of its own; its end can be predicted.",
        "plateaus theory.early_flow theory.gathering_directions", "saddle-to-saddle",
        "measure/test_plateaus.py::TestXor::test_every_end_is_predicted_to_a_hundredth_by_the_early_flow",
        id="plateaus",
    ),
    entry(
        "The skeleton", "this project", "The staircase of vanishing starts.", "skeleton", "plateau-skeleton",
        "measure/test_skeleton.py::test_on_orthogonal_inputs_drops_come_at_one_over_the_rates", id="skeleton",
    ),
    entry(
        "Several outputs", "this project", "Symmetric data with several outputs are learned mode by mode.",
        "theory.mode_staircase theory.growing_modes theory.mirrored theory.finite_width_response "
        "theory.early_flow_several",
        "modes-one-by-one several-outputs-linear-twin cross-entropy-twin",
        "theory/test_modes.py::test_the_time_course_is_the_linear_network_s "
        "theory/test_modes.py::test_mirror_images_make_theorem_5_exact_for_any_outputs", id="several-outputs",
    ),
    entry(
        "Augmentation by (−x, −y)", "this project, after Section 1.1", "It makes Condition 3 hold and XOR unlearnable.",
        "Dataset.symmetrised", "symmetrised-augmentation", _HOLD, id="augmentation",
    ),
)  # fmt: skip

"""Every numbered equation of Zhang, Saxe & Latham's workshop paper, in order; parts a, b, c go with their number."""

from biasfree.papers._entry import entry

_TWIN = "theory/test_equivalence.py::test_exact_starts_are_equivalent"
_GRADIENT = "test_field.py::test_velocity_is_minus_the_gradient"
_EARLY = "theory/test_early.py::test_theorem_13_and_eq_23_in_their_window"
_REDUCED = "theory/test_time_course.py::test_reduced_flow_is_the_flow_for_any_covariance"
_HALVES = "theory/test_lemmas.py::test_identities_hold_under_condition_3"
_DEEP = "theory/test_deep.py::test_full_flow_follows_the_reduced_one_and_keeps_its_form"
_NUMERATOR = "Printed with the network's output where the label y belongs."

EQUATIONS = (
    entry(
        "Eq. 1", "Section 2", "A two-layer (leaky) ReLU network without biases.",
        "Network Network.init", "homogeneity theorem-1", "test_networks.py::test_forward_is_the_definition",
    ),
    entry(
        "Eq. 2", "Section 3.1", "A network as a linear function plus absolute values (Theorem 1).",
        "theory.parity_form", "theorem-1", "theory/test_expressivity.py::test_rebuilt_networks_are_the_same_function",
    ),
    entry(
        "Eq. 3", "Section 3.2", "An odd, nonlinear function that three layers express and two do not.",
        "theory.depth_separation_network datasets.depth_separation", "depth-separation tmlr-figure-1",
        "theory/test_expressivity.py::test_depth_separation_network_is_odd_nonlinear_and_beyond_two_layers "
        "test_depth_separation.py::test_two_layers_stop_at_the_linear_solution "
        "test_depth_separation.py::test_three_layers_go_on_to_zero",
    ),
    entry(
        "Eq. 4", "Section 4.1", "Theorem 5 for the function: the linear network's, in scaled time.",
        "theory.linear_time measure.equivalence_errors", "theorem-5-square theorem-5-logistic", _TWIN,
    ),
    entry(
        "Eq. 5", "Section 4.1", "Theorem 5 for the weights: the linear network's, scaled.",
        "theory.weight_factor theory.linear_twin theory.finite_width_error", "theorem-5-square theorem-5-logistic",
        f"{_TWIN} theory/test_equivalence.py::test_finite_width_error_is_half_the_imbalance",
    ),
    entry(
        "Eq. 6", "Appendix C.1", "Gradient flow of two layers, square loss.",
        "gradient_flow", "eq-34", f"{_GRADIENT} systems/test_systems.py::test_method_solves_system",
    ),
    entry(
        "Eq. 7", "Appendix C.1", "Gradient flow of two layers, logistic loss.",
        "gradient_flow", "theorem-5-logistic", _GRADIENT, note=_NUMERATOR,
    ),
    entry(
        "Eq. 8", "Appendix C.1", "Gradient flow of a two-layer linear network, square loss.",
        "gradient_flow theory.eq_12_velocity", "theorem-5-square eq-34",
        f"theory/test_deep.py::test_eq_12_is_the_gradient_of_a_linear_network {_REDUCED}",
    ),
    entry(
        "Eq. 9", "Appendix C.1", "Input covariance Σ and input-output correlation β.",
        "Dataset.covariance Dataset.correlation", "lemma-10-11", _HALVES,
    ),
    entry(
        "Eq. 10", "Appendix C.1", "Gradient flow of a two-layer linear network, logistic loss.",
        "gradient_flow theory.reduced_flow_logistic", "theorem-5-logistic", _GRADIENT, note=_NUMERATOR,
    ),
    entry(
        "Eq. 11", "Appendix C.2", "Gradient flow of any depth, square loss.", "gradient_flow", "eq-42", _GRADIENT
    ),
    entry(
        "Eq. 12", "Appendix C.2", "Gradient flow of a deep linear network.", "theory.eq_12_velocity", "eq-42",
        "theory/test_deep.py::test_eq_12_is_the_gradient_of_a_linear_network",
    ),
    entry(
        "Eq. 13", "Appendix D", "Grönwall's inequality (Lemma 7).", "theory.lemma_12", "lemma-12",
        "theory/test_early.py::test_lemma_12_bounds_the_growth_and_ends_long_before_the_early_phase",
        note="Not implemented by itself; the links lead to Lemma 12, which uses it.",
    ),
    entry(
        "Eq. 14", "Appendix D", "Covariance over any half space (Lemma 10).", "theory.lemma_10", "lemma-10-11", _HALVES
    ),
    entry(
        "Eq. 15", "Appendix D", "Correlation over any half space (Lemma 10).", "theory.lemma_10", "lemma-10-11", _HALVES
    ),
    entry(
        "Eq. 16", "Appendix D", "First terms of the flow on symmetric data (Lemma 11).", "theory.lemma_11",
        "lemma-10-11", f"{_HALVES} theory/test_lemmas.py::test_left_sides_are_terms_of_the_gradient",
        note="16a needs σ'(0) = (1+α)/2 for samples on a neuron's own hyperplane.",
    ),
    entry(
        "Eq. 17", "Appendix E.1", "The bound on early growth (Lemma 12).", "theory.lemma_12", "lemma-12",
        "theory/test_early.py::test_lemma_12_bounds_the_growth_and_ends_long_before_the_early_phase",
    ),
    entry("Eq. 18", "Appendix E.1", "Early phase, first layer.", "theory.early_solution", "theorem-13", _EARLY),
    entry("Eq. 19", "Appendix E.1", "Early phase, second layer.", "theory.early_solution", "theorem-13", _EARLY),
    entry(
        "Eq. 20", "Appendix E.1", "Exponential growth along one direction (Theorem 13).",
        "theory.theorem_13 theory.aligned_start", "theorem-13", _EARLY,
    ),
    entry("Eq. 21", "Appendix E.1", "The approximate, linear dynamics.", "theory.early_solution", "theorem-13", _EARLY),
    entry("Eq. 22", "Appendix E.1", "The same as one matrix equation.", "theory.early_solution", "theorem-13", _EARLY),
    entry(
        "Eq. 23", "Appendix E.1", "Its solution: growing, decaying and constant parts.", "theory.early_solution",
        "theorem-13", f"{_EARLY} theory/test_early.py::test_symmetric_data_have_no_switches_and_give_eq_23",
    ),
    entry(
        "Eq. 24", "Appendix E.1", "How exact and approximate dynamics part.", "theory.equation_24a theory.lemma_8",
        "lemma-8-9", "theory/test_lemmas.py::test_the_second_layer_cannot_be_taken_out_of_the_average",
        note="24a lacks a factor xᵀ, and W₂ᵀW₂ cannot be taken out of the average.",
    ),
    entry(
        "Eq. 25", "Appendix E.1", "The same in one line, with an error term ϵ.", "measure.early_phase", "theorem-13",
        _EARLY,
    ),
    entry("Eq. 26", "Appendix E.2", "The two half spaces of r.", "theory.lemma_10", "lemma-10-11", _HALVES),
    entry(
        "Eq. 27", "Appendix E.2", "What a network of Assumption 4 computes.", "Network.rank_one theory.parity_form",
        "theorem-5-square",
        "theory/test_expressivity.py::test_assumption_4_is_linear_and_its_perturbation_is_not",
    ),
    entry(
        "Eq. 28", "Appendix E.2", "What a linear network of these weights computes.", "Network.rank_one",
        "theorem-5-square", _TWIN,
    ),
    entry(
        "Eq. 29", "Appendix E.2", "The two differ by the factor (α+1)/2.", "theory.relu_twin theory.parity_form",
        "theorem-5-square",
        f"theory/test_expressivity.py::test_assumption_4_is_linear_and_its_perturbation_is_not {_TWIN}",
    ),
    entry(
        "Eq. 30", "Appendix E.2", "The flow with Eq. 29 put in.", "theory.reduced_flow", "eq-34", _REDUCED
    ),
    entry(
        "Eq. 31", "Appendix E.2", "Its second term, first layer.", "theory.reduced_flow", "eq-34", _REDUCED
    ),
    entry(
        "Eq. 32", "Appendix E.2", "A line of the same computation.", "theory.reduced_flow", "eq-34", _REDUCED,
        note="Counted between Eqs. 31 and 33 and never referred to; the text we hold shows no formula for it.",
    ),
    entry(
        "Eq. 33", "Appendix E.2", "Its second term, second layer.", "theory.reduced_flow", "eq-34", _REDUCED
    ),
    entry(
        "Eq. 34", "Appendix E.2", "The reduced flow: a linear network's, with factors (α+1)/2.",
        "theory.reduced_flow theory.reduced_flow_logistic", "eq-34",
        f"{_REDUCED} theory/test_time_course.py::test_reduced_flow_waits_at_rest_and_ends_at_least_squares",
    ),
    entry(
        "Eq. 35", "Appendix E.2", "The scaling of the weights.", "theory.weight_factor theory.linear_twin",
        "theorem-5-square", "theory/test_equivalence.py::test_twins_and_refusals " + _TWIN,
    ),
    entry(
        "Eq. 36", "Appendix E.2", "Balance: W₁W₁ᵀ − W₂ᵀW₂ is conserved.",
        "measure.matrix_balance measure.neuron_balance",
        "matrix-invariance neuron-invariance", "measure/test_invariants.py::test_linear_layers_conserve_the_matrix",
        note="Holds for linear networks and under Assumption 4; else ReLU networks conserve its diagonal only.",
    ),
    entry(
        "Eq. 37", "Appendix E.2", "The flow with logistic loss and Eq. 29 put in.", "theory.reduced_flow_logistic",
        "theorem-5-logistic", _TWIN, note=_NUMERATOR,
    ),
    entry(
        "Eq. 38", "Appendix E.3", "The time course w(t) in closed form on white inputs (Corollary 14).",
        "theory.closed_form", "corollary-14",
        "theory/test_time_course.py::test_closed_form_is_the_flow_and_the_printed_initial_norm_is_not "
        "theory/test_time_course.py::test_closed_form_against_the_riccati_solution "
        "theory/test_time_course.py::test_ends_of_time_and_tiny_starts",
        note="Printed with u₀ = ‖W₁(0)‖; right is √((α+1)/2)‖W₁(0)‖. White inputs only: else Eq. 34.",
    ),
    entry(
        "Eq. 39", "Appendix F.1", "Rank-one, aligned weights of a deep linear network.",
        "Network.aligned_linear measure.fit_eq_39 measure.structure", "eq-39-40",
        "measure/test_low_rank_fit.py::test_exact_eq_39_is_found "
        "measure/test_structure.py::test_eq_39_is_rank_one_and_aligned",
    ),
    entry(
        "Eq. 40", "Appendix F.1", "Weights of a deep ReLU network: rank one outside, rank two and ≥ 0 in the middle.",
        "Network.aligned_relu measure.fit_eq_40 measure.structure theory.sign_paths", "eq-39-40 structure-persists",
        "measure/test_low_rank_fit.py::test_exact_eq_40_is_found "
        "measure/test_structure.py::test_eq_40_has_rank_two_non_negative_middle_layers",
    ),
    entry(
        "Eq. 41", "Appendix F.1", "Such a ReLU network is linear: half of what its weights' product computes.",
        "theory.effective_map", "eq-41",
        "theory/test_deep.py::test_eq_41_is_the_function_of_an_aligned_network "
        "theory/test_deep.py::test_eq_41_fails_off_the_form",
    ),
    entry(
        "Eq. 42", "Appendix F.1", "The flow of such a ReLU network.", "theory.eq_42_velocity", "eq-42",
        "theory/test_deep.py::test_eq_42_is_the_gradient_only_when_corrected",
        note="The last product runs over l' = 1 … l−1, and middle layers keep only their two diagonal blocks.",
    ),
    entry(
        "Eq. 43", "Appendix F.2", "The same, first layer.", "theory.deep_reduced_flow theory.eq_42_velocity",
        "structure-persists", _DEEP,
    ),
    entry(
        "Eq. 44", "Appendix F.2", "The same, middle layers.", "theory.deep_reduced_flow theory.eq_42_velocity",
        "structure-persists", _DEEP,
    ),
    entry(
        "Eq. 45", "Appendix F.2", "The same, last layer.", "theory.deep_reduced_flow theory.eq_42_velocity",
        "structure-persists", _DEEP,
    ),
)  # fmt: skip

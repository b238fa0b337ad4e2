"""Theorems, lemmas, corollaries, the condition and the assumption of Zhang, Saxe & Latham, in their order."""

from biasfree.papers._entry import entry

STATEMENTS = (
    entry(
        "Theorem 1", "Section 3.1",
        "Two layers express a linear function plus a positively homogeneous even one, and nothing else.",
        "theory.parity_form theory.ParityForm theory.same_function", "theorem-1 best-possible-loss",
        "theory/test_expressivity.py::test_disguised_networks_are_recognised "
        "theory/test_expressivity.py::test_rebuilt_networks_are_the_same_function "
        "theory/test_expressivity.py::test_theorem_1_and_corollary_2_for_any_number_of_outputs",
    ),
    entry(
        "Corollary 2", "Section 3.1", "The only odd functions that two layers express are linear.",
        "theory.parity_form", "corollary-2",
        "theory/test_expressivity.py::test_parity_is_the_functions_own "
        "theory/test_expressivity.py::test_theorem_1_and_corollary_2_for_any_number_of_outputs",
    ),
    entry(
        "Condition 3", "Section 4.1", "Symmetric data: the inputs are even, the target is odd.",
        "theory.symmetry theory.asymmetry Dataset.symmetrised", "lemma-10-11 perturbed-symmetry",
        "theory/test_symmetry.py::test_symmetrised_data_satisfy_the_condition "
        "theory/test_symmetry.py::test_the_papers_sets "
        "theory/test_symmetry.py::test_exact_in_the_plane_against_dense_angles",
    ),
    entry(
        "Assumption 4", "Section 4.1",
        "Rank-one weights W₁ = W₂ᵀrᵀ with positive and negative parts of equal norm.",
        "measure.assumption_4 Network.rank_one", "assumption-4",
        "test_networks.py::TestStarts::test_rank_one_is_assumption_4 "
        "theory/test_equivalence.py::test_assumption_4_defects",
        journal="Assumption 7",
    ),
    entry(
        "Theorem 5", "Section 4.1",
        "Under Condition 3 and Assumption 4 a network is a linear one at (α+1)/2 times the pace, with larger weights.",
        "theory.linear_twin theory.relu_twin theory.weight_factor theory.linear_time measure.equivalence_errors "
        "theory.finite_width_error",
        "theorem-5-square theorem-5-logistic several-outputs-linear-twin cross-entropy-twin",
        "theory/test_equivalence.py::test_exact_starts_are_equivalent "
        "theory/test_equivalence.py::test_finite_width_error_is_half_the_imbalance",
        journal="Theorem 8",
    ),
    entry(
        "Corollary 6", "Section 4.1",
        "Training ends at least squares (square loss) or at the hard-margin direction (logistic loss).",
        "theory.least_squares theory.max_margin theory.separability theory.regularised_limit",
        "corollary-6-least-squares corollary-6-max-margin global-minimum",
        "theory/test_limits.py::test_least_squares_is_the_pseudo_inverse "
        "theory/test_limits.py::test_max_margin_agrees_with_other_solvers "
        "theory/test_best_loss.py::test_condition_3_makes_the_minimum_linear",
    ),
    entry(
        "Lemma 7", "Appendix D", "Grönwall's inequality.",
        "theory.lemma_12", "lemma-12",
        "theory/test_early.py::test_lemma_12_bounds_the_growth_and_ends_long_before_the_early_phase",
        note="A textbook lemma, not implemented by itself; the links lead to Lemma 12, whose proof uses it.",
    ),
    entry(
        "Lemma 8", "Appendix D", "A bound on ⟨σσᵀ⟩, the cubic term of the second layer.",
        "theory.lemma_8", "lemma-8-9",
        "theory/test_lemmas.py::test_inequalities_hold_for_every_network_and_data_set "
        "theory/test_lemmas.py::test_a_spectral_norm_on_the_right_suffices",
    ),
    entry(
        "Lemma 9", "Appendix D", "A bound on ⟨σσ'xᵀ⟩, the cubic term of the first layer.",
        "theory.lemma_9 theory.equation_24a", "lemma-8-9",
        "theory/test_lemmas.py::test_left_sides_are_terms_of_the_gradient "
        "theory/test_lemmas.py::test_inequalities_hold_for_every_network_and_data_set",
        note="A factor xᵀ is missing in print; the bound holds.",
    ),
    entry(
        "Lemma 10", "Appendix D", "On symmetric data every half space has the covariance and correlation of the whole.",
        "theory.lemma_10 theory.asymmetry", "lemma-10-11",
        "theory/test_lemmas.py::test_identities_hold_under_condition_3 "
        "theory/test_lemmas.py::test_errors_of_lemma_10_are_the_half_space_asymmetry",
        note="The proof prints ½∫ for the average over a half space, which is 2∫; the lemma is right.",
    ),
    entry(
        "Lemma 11", "Appendix D", "On symmetric data the activation only scales the first terms of the flow.",
        "theory.lemma_11", "lemma-10-11",
        "theory/test_lemmas.py::test_identities_hold_under_condition_3 "
        "theory/test_lemmas.py::test_left_sides_are_terms_of_the_gradient",
    ),
    entry(
        "Lemma 12", "Appendix E.1", "From small weights the larger norm grows at most like e^{(s + Tr Σ)t}.",
        "theory.lemma_12", "lemma-12",
        "theory/test_early.py::test_lemma_12_bounds_the_growth_and_ends_long_before_the_early_phase "
        "theory/test_early.py::test_a_large_start_has_no_window",
    ),
    entry(
        "Theorem 13", "Appendix E.1", "In the early phase weights grow along one direction, with errors of order γ.",
        "theory.theorem_13 theory.early_solution theory.aligned_start measure.early_phase", "theorem-13",
        "theory/test_early.py::test_theorem_13_and_eq_23_in_their_window",
        note="The statement holds; the Grönwall bound printed in its proof is of order one at the window's end.",
    ),
    entry(
        "Corollary 14", "Appendix E.3", "The time course in closed form on white inputs.",
        "theory.closed_form", "corollary-14",
        "theory/test_time_course.py::test_closed_form_is_the_flow_and_the_printed_initial_norm_is_not "
        "theory/test_time_course.py::test_closed_form_against_the_riccati_solution",
        note="Printed with u₀ = ‖W₁(0)‖; right is √((α+1)/2)‖W₁(0)‖.",
    ),
)  # fmt: skip

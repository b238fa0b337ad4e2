"""Ten questions of readers, and the links by which the site answers them: from the start page, three clicks at most.

Each step is a page below ``docs`` without ending, with the heading's anchor where the answer is further down; the last
one must show the words that answer.
"""

QUESTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Where is Eq. 40?": (
        ("index", "generated/results", "generated/results#result-eq-40"),
        ("measure.fit_eq_40", "Network.aligned_relu", "test_exact_eq_40_is_found"),
    ),
    "What is sliding?": (
        ("index", "glossary", "tutorials/8-event-by-event#one-neuron-on-a-boundary"),
        ("it slides", "Filippov"),
    ),
    "How do I sweep width?": (
        ("index", "tutorials/4-phase-diagram", "tutorials/4-phase-diagram#sweep-anything"),
        ("make it an axis", "width"),
    ),
    "Why is my CSV refused?": (
        ("index", "help", "tutorials/5-my-data#why-is-my-csv-refused"),
        ("one sentence", "categories", "--drop"),
    ),
    "How accurate is this run?": (
        ("index", "help", "tutorials/1-first-flow#three-gauges"),
        ("balance drift", "energy gap", "admissibility"),
    ),
    "What does the status “inaccurate” mean?": (
        ("index", "help", "exact#three-gauges-one-guard-and-what-a-status-means"),
        ("inaccurate",),
    ),
    "When does a plateau end?": (
        ("index", "tutorials/3-plateaus", "plateaus#the-law-of-departure"),
        ("the plateau ends at",),
    ),
    "Does Theorem 5 hold with weight decay?": (
        ("index", "generated/results", "generated/studies/weight-decay"),
        ("L2 regularisation", "Verdict"),
    ),
    "Is there a slip in Eq. 38?": (
        ("index", "generated/results", "generated/results#result-eq-38"),
        ("Printed with",),
    ),
    "What arguments has gradient_flow?": (
        (
            "index",
            "generated/reference/index",
            "generated/reference/top",
            "generated/reference/top#biasfree.gradient_flow",
        ),
        ("weight_decay", "rtol", "until"),
    ),
    "How do I add an integrator?": (
        ("index", "contributing", "design#adding-an-integrator"),
        ("advance", "Piece"),
    ),
    "How far is my trained model from linear?": (
        ("index", "tutorials/6-my-model", "inspection"),
        ("biasfree inspect", "certified"),
    ),
}

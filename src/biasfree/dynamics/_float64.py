"""Where float64 ends: limits that several modules share, and the time of what does not happen."""

LARGEST_EXPONENT = 700.0  # bound: e^709 is the largest number; e^700 leaves room for factors of 8000
SMALLEST = 1e-300  # bound: above the smallest normal number, 2.2e-308; a divisor or a step that must not be 0
TIME_RESOLUTION = 1e-15  # bound: times closer than 4.5 ε (ε = 2.2e-16) of themselves are not told apart
NEVER = 2.0  # a mark, as in native/engine.h: an event's x is in [0, 1], so any larger number is "does not happen"

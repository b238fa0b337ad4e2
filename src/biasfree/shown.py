"""What a notebook shows of an object: its printed text beside a small picture. ``biasfree.report`` draws both."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Shown:
    """Has ``plot()`` and shows itself in a notebook; ``report`` knows how, by the object's type."""

    def plot(self, **options: Any) -> "Figure":
        """Its picture, a matplotlib Figure that belongs to no window: ``biasfree.report.plot`` of this object."""
        from biasfree import report

        return report.plot(self, **options)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from biasfree import report

        return report.notebook_html(self)

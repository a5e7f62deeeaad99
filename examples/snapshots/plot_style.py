"""What the two plots share: colours that colour-blind people can tell apart, and
one way to save."""
import matplotlib

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt  # noqa: E402

COLOUR = {"device": "#0072B2", "host": "#E69F00", "storage": "#009E73",
          "computed": "#BBBBBB"}

plt.rcParams.update({
    "figure.dpi": 130, "font.size": 10, "axes.titlesize": 11,
    "axes.titlelocation": "left", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": "#DDDDDD", "grid.linewidth": 0.6, "legend.frameon": False,
    "svg.hashsalt": "pagelane"})


def save(figure, path):
    """As PNG or SVG, by the name; the same figure gives the same file."""
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg")
                   else None)
    print(f"plot in {path}")

# Pages of all ranks into a view, every byte checked; figures are left out.
plain() {
    sed -E 's/[0-9]+\.[0-9]+/T/g; s/ +/ /g; s/^ //; /^[- ]+$/s/-+/-/g'
}
small="--min 64KiB --max 1MiB --page-size 16"
"$PAGELANE" bench transfer --comm local --ranks 3 $small | plain
"$PAGELANE" bench transfer --comm local --device guard $small --max 64KiB | plain
"$PAGELANE" bench transfer --comm mpi --ranks 2 $small --max 64KiB | plain
# Sizes below a page are none.
"$PAGELANE" bench transfer --comm local $small --min 1 --max 64KiB | plain
"$PAGELANE" bench transfer --comm peer --ranks 2 $small --max 64KiB --json |
    plain

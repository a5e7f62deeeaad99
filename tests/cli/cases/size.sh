# The example of the README, and that the README shows what it prints.
"$PAGELANE" size --model GLM-5.2 --hardware H20-3e --kv-dtype fp8 --host-gb 200 |
    tee out || exit
sed -n '/^    pagelane size --model GLM-5.2/,/^[^ ]/s/^    //p' \
    "$DATA/../README.md" | sed 1d >readme
grep -Fxv -f out readme && echo "the README shows other lines"
wc -l <readme

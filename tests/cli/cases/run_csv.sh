# Lengths and times alone: nothing is hit, and that means nothing.
"$PAGELANE" run --trace "$DATA/azure_code_slice.csv" --limit 5 --executor cost \
    --device-pages unlimited --decode-pages unlimited --log-level warn 2>err |
    sed -n '5,10p'
sed 's/: .*csv/: FILE.csv/' err

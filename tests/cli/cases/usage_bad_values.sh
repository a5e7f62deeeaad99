for arguments in --limit --limit= '--limit 3x' '--limit -2' \
    '--limit 99999999999999999999' '--page-size 0' '--page-size 1025' \
    '--json=perhaps' '--log-level loud' '--block-tokens 513' '--passes 0'; do
    # shellcheck disable=SC2086
    "$PAGELANE" trace stats x $arguments
    echo "$arguments: $?"
done
"$PAGELANE" trace stats --limit ''
"$PAGELANE" trace stats

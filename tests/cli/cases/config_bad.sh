printf 'limit = 3\n\nlimits = 4\n' >unknown.conf
printf 'limit = 3\nlimit = 4\n' >twice.conf
printf 'limit\n' >line.conf
printf 'limit = 3x\n' >value.conf
for file in unknown twice line value missing; do
    "$PAGELANE" trace stats x --config $file.conf
    status=$?
done
exit "$status"

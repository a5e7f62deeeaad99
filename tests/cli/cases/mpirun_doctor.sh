out=$(mpirun -n 2 "$PAGELANE" doctor 2>/dev/null)
grep -c "^check " <<<"$out"
grep "^more ranks than cores" <<<"$out"

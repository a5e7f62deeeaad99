"$PAGELANE" doctor --json | python3 -m json.tool >/dev/null && echo json
"$PAGELANE" doctor | head -n 1 | cut -c 1-5

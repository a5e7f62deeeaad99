# README.md's table has a row for each verb.
verbs=$("$PAGELANE" --help |
    sed -n '/^verbs:/,/^$/s/^  \([a-z ]*[a-z]\)  .*/\1/p')
echo "$verbs" | grep -cx run
echo "$verbs" | while read -r verb; do
    grep -q "^| \`$verb[\` ]" "$DATA/../README.md" ||
        echo "README.md has no row for $verb"
done

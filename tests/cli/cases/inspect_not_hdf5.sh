echo hello >text
for file in text /dev/null .; do
    "$PAGELANE" inspect $file nodes
    echo "exit status $?"
done

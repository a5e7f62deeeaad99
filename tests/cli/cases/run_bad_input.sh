# What a run cannot read or write: exit status 3, one line, however it is run.
good='{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}'
printf '%s\n%s\n%s\n' "$good" '{"timestamp": 0, "input_length":' "$good" >broken.jsonl
printf '%s\n%s\n' "$good" '{"timestamp": 0, "input_length": 2000, "output_length": 5, "hash_ids": [0, 1]}' >length.jsonl
printf '%s\n%s\n' "$good" '{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 7, 1]}
{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [5, 7, 1]}' >trie.jsonl
: >empty.jsonl
printf '%s\n' "$good" >good.jsonl
mkdir folder
for arguments in '--trace broken.jsonl' '--trace length.jsonl' \
    '--trace trie.jsonl' '--trace empty.jsonl' '--trace missing.jsonl' \
    '--trace folder' '--trace good.jsonl --offset 1' \
    '--trace good.jsonl --snapshot nowhere/a.h5' \
    '--trace good.jsonl --snapshot folder' \
    '--trace good.jsonl --config missing.conf'; do
    for comm in local mpi; do
        # shellcheck disable=SC2086
        "$PAGELANE" run --ranks 3 --comm $comm $arguments
        status=$?
        echo "$arguments, $comm: $status"
    done
done
ls
exit "$status"

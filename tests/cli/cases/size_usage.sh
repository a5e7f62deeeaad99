# What cannot be sized is refused with what would do.
echo '{"name": "X", "kind": "gpu"}' >bare.json
echo '{"name": "X",' >torn.json
size() {
    "$PAGELANE" size "$@"
    echo "$?"
}
good=(--model GLM-5 --hardware H200 --kv-dtype fp8)
size
size --model GLM-5
size --model GLM-5 --hardware H200
size --model GLM-6 --hardware H200 --kv-dtype fp8
size "${good[@]}" --hardware H300
size "${good[@]}" --hardware bare.json
size "${good[@]}" --hardware torn.json
size "${good[@]}" --model bare.json
size "${good[@]}" --cp 3
size "${good[@]}" --gpus 128
size "${good[@]}" --cp 128
size "${good[@]}" --ep 9
size "${good[@]}" --gpus 512 --cp 8 --ep 512
size "${good[@]}" --context 202753
size "${good[@]}" --mem-fraction 0
size "${good[@]}" --mem-fraction 1.1
size "${good[@]}" --host-gb 9007200
size "${good[@]}" GLM-5
size "${good[@]}" --ownership layers

# For programs: every kind of option, the same bytes twice.
size() {
    "$PAGELANE" size --model DeepSeek-V3.2 --hardware b300 --gpus 16 --cp 4 \
        --ep 16 --kv-dtype bf16 --weight-dtype bf16 --mem-fraction 0.9 \
        --host-gb 0.5 --context 100000 --page-size 32 --mtp-layers 1 --json
}
size | tee first || exit
size | cmp first - && echo "the same again"

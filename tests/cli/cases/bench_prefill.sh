# Where each prompt came from is checked by the program; times are left out.
plain() {
    sed -E 's/[0-9]+\.[0-9]+/T/g; s/ +/ /g; s/^ //; /^[- ]+$/s/-+/-/g; s:prefill\: .*glm-tiny,:prefill\: glm-tiny,:; s:"model"\: .*:"model"\: M,:'
}
prefill() {
    "$PAGELANE" bench prefill --model "$DATA/../examples/glm-tiny" \
        --page-size 16 --chunk 128 --repeat 2 "$@" | plain
}
prefill --contexts 256,512
prefill --contexts 512 --comm local --ranks 2 --ownership both
prefill --contexts 512 --comm peer --ranks 2 --kv-dtype fp8 --json
prefill --contexts 512 --comm mpi --ranks 2 --layers 2 --weights random:3

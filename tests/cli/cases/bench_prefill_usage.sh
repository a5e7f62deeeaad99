# What cannot be measured is refused.
try() {
    "$PAGELANE" bench prefill "$@"
    echo "exit status $?"
}
tiny="--model $DATA/../examples/glm-tiny"
try
try --model GLM-5
try $tiny --layers 2
try $tiny --ownership all
try $tiny --chunk 100
try $tiny --device cuda --comm local
try $tiny --comm nccl
try $tiny --contexts 1
try $tiny --contexts 64 --page-size 16 --chunk 16 --ranks 8 --comm local
try $tiny --decode-ranks 1
"$PAGELANE" bench prefill --help | head -12
